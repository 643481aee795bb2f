"""Anomalous accounts in a network of transactions."""

from typing import ClassVar

from torch_energy_graph.datasets.dgl_node_graph import DGLNodeGraph
from torch_energy_graph.datasets.roots import Root
from torch_energy_graph.datasets.stored_graph import Transform

__all__ = ['TFinance']


class TFinance(DGLNodeGraph):
    """Accounts, connected by transactions; some are fraudulent.

    The file ``tfinance`` of `"Rethinking Graph Neural Networks for Anomaly
    Detection" <https://arxiv.org/abs/2205.15508>`_ (labels one-hot, no masks)
    or of GADBench (20 stored splits of the family 'gadbench', self-loops
    added).

    Args:
        root (str or Path, optional): Folder of the file; if it is not there,
            the folders of :func:`~torch_energy_graph.datasets.data_roots`
            are searched. (default: :obj:`None`)
        transform (callable, optional): Applied to the graph at each access.
            (default: :obj:`None`)

    **STATS (published):** 39,357 nodes, 21,222,543 edges, 10 features, 4.58 %
    anomalies.
    """

    places: ClassVar[tuple[str, ...]] = (
        'tfinance',
        'TFinance/tfinance',
        'TFinance/raw/tfinance',
        'GADBench/tfinance',
    )

    def __init__(self, root: Root = None, transform: Transform = None) -> None:
        super().__init__('tfinance', self.places, root, transform=transform)
