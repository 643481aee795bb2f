"""What the scores of some nodes depend on."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph

from torch_energy_graph.detect.scorer import Scorer

__all__ = ['surroundings']


def surroundings(
    scorer: Scorer, graph: Data, nodes: Sequence[int]
) -> tuple[Data, Tensor, Tensor]:
    r"""The subgraph that scores and energies of some nodes depend on.

    Args:
        scorer (Scorer): A fitted detector.
        graph (Data): The fields that are read, not encoded.
        nodes (sequence of int): The nodes.

    Returns:
        tuple: The subgraph; the nodes in it, :math:`[M]`; and the places of
        :obj:`nodes` among them.
    """
    # a step reads a neighbour's softmax, which reads its in-neighbours; the
    # energy reads states of neighbours
    radius = scorer.inputs.hops + 2 * scorer.shape.num_steps + 1
    both = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    near, _, places, _ = k_hop_subgraph(
        both.new_tensor(nodes), radius, both, num_nodes=graph.x.size(0)
    )
    return graph.subgraph(near), near, places
