"""Mini-batches of one large graph."""

from torch_energy_graph.loader.neighbor import NeighborLoader
from torch_energy_graph.loader.random_partition import RandomPartitionLoader

__all__ = ['NeighborLoader', 'RandomPartitionLoader']
