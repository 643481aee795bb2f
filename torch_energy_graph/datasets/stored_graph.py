"""What all graphs that are read from a file of their own form share."""

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from torch_geometric.data import Data, InMemoryDataset

from torch_energy_graph.data import check_graph
from torch_energy_graph.datasets.splits import Split, split_of

__all__ = ['StoredGraph', 'Transform']

Transform = Callable[[Data], Data] | None


class StoredGraph(InMemoryDataset):
    r"""One graph with labels 0 (normal), 1 (anomalous), -1 (unlabelled).

    Args:
        path (Path): The file, for messages.
        data (Data): The graph.
        masks (Mapping): By split family, bool masks :math:`[N, S]` under
            'train', 'val' and 'test'.
        transform (callable, optional): Applied to the graph at each access.
            (default: :obj:`None`)
    """

    def __init__(
        self,
        path: Path,
        data: Data,
        masks: Mapping[str, Mapping[str, Tensor]],
        transform: Transform = None,
    ) -> None:
        super().__init__(None, transform)
        try:
            check_graph(data)
        except (IndexError, ValueError) as error:
            raise ValueError(f"bad graph in '{path}': {error}") from error
        self.path = path
        self._masks = masks
        self.data, self.slices = self.collate([data])

    @property
    def splits(self) -> dict[str, Split]:
        """Masks (train, val, test) by family; ValueError if they overlap."""
        return {name: split_of(name, m) for name, m in self._masks.items()}

    def __repr__(self) -> str:
        return f'{type(self).__name__}()'
