"""The prepared graphs of GADBench."""

from typing import ClassVar

from torch_energy_graph.datasets.dgl_node_graph import DGLNodeGraph
from torch_energy_graph.datasets.relations import Edges
from torch_energy_graph.datasets.roots import Root
from torch_energy_graph.datasets.stored_graph import Transform

__all__ = ['GADBenchDataset']


class GADBenchDataset(DGLNodeGraph):
    """A prepared graph of GADBench, read without DGL.

    Published with `"GADBench: Revisiting and Benchmarking Supervised Graph
    Anomaly Detection" <https://arxiv.org/abs/2306.12251>`_. Self-loops are in
    the files and stay. ``splits['gadbench']`` holds 20 columns: 0 to 9 fully
    supervised, 10 to 19 with 100 nodes to train on. Of 'amazon', 'yelp',
    'elliptic' and 'dgraphfin' the first ten are one split, ten times.

    Args:
        name (str): One of :obj:`names`.
        root (str or Path, optional): Folder of the files; if it is not there,
            the folders of :func:`~torch_energy_graph.datasets.data_roots`
            are searched. (default: :obj:`None`)
        edges (str, optional): What becomes of several relations, see
            :class:`~torch_energy_graph.datasets.FraudYelp`.
            (default: :obj:`'typed'`)
        transform (callable, optional): Applied to the graph at each access.
            (default: :obj:`None`)
    """

    names: ClassVar[tuple[str, ...]] = (
        'reddit',
        'weibo',
        'amazon',
        'yelp',
        'tfinance',
        'elliptic',
        'tolokers',
        'questions',
        'dgraphfin',
        'tsocial',
        'hetero/amazon',
        'hetero/yelp',
    )

    def __init__(
        self,
        name: str,
        root: Root = None,
        edges: Edges = 'typed',
        transform: Transform = None,
    ) -> None:
        if name not in self.names:
            raise ValueError(
                f"expected 'name' as one of {', '.join(self.names)} (got "
                f'{name!r})'
            )
        super().__init__(name, self.places(name), root, edges, transform)
        self._graph_name = name

    @staticmethod
    def places(name: str) -> tuple[str, ...]:
        """Where the file may lie in a folder."""
        return (f'GADBench/{name}', name, f'GADBench/datasets/{name}')

    def __repr__(self) -> str:
        return f'{type(self).__name__}({self._graph_name!r})'
