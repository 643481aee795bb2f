"""Anomalous accounts in a social network."""

from typing import ClassVar

from torch_energy_graph.datasets.dgl_node_graph import DGLNodeGraph
from torch_energy_graph.datasets.roots import Root
from torch_energy_graph.datasets.stored_graph import Transform

__all__ = ['TSocial']


class TSocial(DGLNodeGraph):
    """Accounts, connected by long friendships; some are fraudulent.

    The file ``tsocial`` of `"Rethinking Graph Neural Networks for Anomaly
    Detection" <https://arxiv.org/abs/2205.15508>`_ (no masks) or of GADBench
    (20 stored splits of the family 'gadbench', self-loops added).

    Args:
        root (str or Path, optional): Folder of the file; if it is not there,
            the folders of :func:`~torch_energy_graph.datasets.data_roots`
            are searched. (default: :obj:`None`)
        transform (callable, optional): Applied to the graph at each access.
            (default: :obj:`None`)

    **STATS (published):** 5,781,065 nodes, 73,105,508 edges, 10 features,
    3.01 % anomalies.
    """

    places: ClassVar[tuple[str, ...]] = (
        'tsocial',
        'TSocial/tsocial',
        'TSocial/raw/tsocial',
        'GADBench/tsocial',
    )

    def __init__(self, root: Root = None, transform: Transform = None) -> None:
        super().__init__('tsocial', self.places, root, transform=transform)
