"""Graphs sharded over processes: exact all-pair attention and propagation."""

from torch_energy_graph.distributed.collectives import (
    all_reduce_sum,
    exchange_rows,
)
from torch_energy_graph.distributed.difformer import (
    ShardedDIFFormer,
    ShardedDIFFormerConv,
)
from torch_energy_graph.distributed.gradients import (
    broadcast_parameters,
    mean_share,
    sync_gradients,
)
from torch_energy_graph.distributed.linear_attention import (
    sharded_linear_attention,
)
from torch_energy_graph.distributed.sharded_graph import ShardedGraph
from torch_energy_graph.distributed.torchrun import Worker, torchrun_group

__all__ = [
    'ShardedGraph',
    'ShardedDIFFormer',
    'ShardedDIFFormerConv',
    'sharded_linear_attention',
    'torchrun_group',
    'Worker',
    'mean_share',
    'sync_gradients',
    'broadcast_parameters',
    'all_reduce_sum',
    'exchange_rows',
]
