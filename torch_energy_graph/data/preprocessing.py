"""From the columns of tables to the features of a graph."""

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.data.tables.graph_table import GraphTable
from torch_energy_graph.data.tables.layout import TableLayout
from torch_energy_graph.data.tables.scaling import Encoding, check_encoding
from torch_energy_graph.data.tables.table_encoder import TableEncoder

__all__ = ['Preprocessing', 'TableWarning']

_FORMAT, _VERSION = 'torch_energy_graph.preprocessing', 1
_DAMAGED = (AttributeError, IndexError, KeyError, TypeError, ValueError)


class TableWarning(UserWarning):
    """A table to be transformed differs from the one that was fitted."""


class Preprocessing:
    r"""Turns columns into features :obj:`x`, as it has learned to.

    Fit it on training nodes: it reads no label, and no column of other nodes.
    Numbers are filled with medians, marked where they were missing and then
    encoded; times also get their place in the day and in the week; categories
    become columns of zeros and ones. Columns of edges are treated in the same
    way.

    Later tables are transformed with what was learned. A column that is
    absent is an error. New columns, categories, relations (whose edges are
    left out) and gaps are no errors: each gives a :class:`TableWarning`.

    Args:
        encoding (str, optional): Of numbers: 'raw', 'standard' (mean 0,
            variance 1), 'normal' (ranks as a normal variable) or 'piecewise'
            (16 quantile bins, standardised). (default: :obj:`'standard'`)
        max_categories (int, optional): Upper bound of categories of a column
            that get a feature of their own; all others share one.
            (default: :obj:`32`)

    Attributes:
        feature_names_: Names of the features, in the order of :obj:`x`.
        edge_feature_names_: The same for :obj:`edge_attr`.
        relations_: Names of the relations, by their number.
        layout_: How the fitted tables were read.

    Example:
        >>> import pandas
        >>> from torch_energy_graph.data import from_pandas
        >>> nodes = pandas.DataFrame({
        ...     'id': [7, 8, 9],
        ...     'amount': [1.0, 3.0, None],
        ... })
        >>> edges = pandas.DataFrame({'source': [7], 'target': [9]})
        >>> preprocessing = Preprocessing().fit(from_pandas(nodes, edges))
        >>> preprocessing.feature_names_
        ['amount', 'amount missing']
    """

    def __init__(
        self, encoding: Encoding = 'standard', max_categories: int = 32
    ) -> None:
        check_encoding(encoding)
        if max_categories < 1:
            raise ValueError(
                f"'Preprocessing' expects max_categories >= 1 (got "
                f'{max_categories})'
            )
        self.encoding = encoding
        self.max_categories = max_categories

    def fit(
        self, table: GraphTable, mask: Tensor | None = None
    ) -> 'Preprocessing':
        r"""Learn from some nodes, and from the edges that touch them.

        Args:
            table (GraphTable): The graph.
            mask (Tensor, optional): Nodes to learn from, bool :math:`[N]`; if
                :obj:`None`, all of them. (default: :obj:`None`)
        """
        _check_table(table)
        nodes, edges = _rows(table, mask)
        how = (self.encoding, self.max_categories)
        self._nodes = TableEncoder.fitted(
            table.nodes, table.node_kinds, nodes, *how
        )
        self._edges = TableEncoder.fitted(
            table.edges, table.edge_kinds, edges, *how
        )
        self.relations_ = table.relations
        self.layout_ = table.layout
        return self

    def transform(self, table: GraphTable) -> Data:
        r"""The graph with features.

        Returns:
            Data: Fields :obj:`x` :math:`[N, F]` (one column of ones if there
            is no feature), :obj:`edge_index`, :obj:`y` and the list
            :obj:`node_id`; :obj:`edge_type` if the fitted graph had
            relations, :obj:`edge_attr` :math:`[E, D]` if it had features of
            edges.

        Raises:
            ValueError: If a column is absent, or a cell is not of its kind.
        """
        _check_table(table)
        if not hasattr(self, '_nodes'):
            raise ValueError(
                "'Preprocessing' is not fitted; call fit(table, train_mask) "
                'first'
            )
        x, notes = self._nodes(table.nodes)
        edge_type, kept, more = self._typed(table)
        notes += more
        data = Data(
            x=torch.from_numpy(x if x.shape[1] else _ones(len(x))),
            edge_index=table.edge_index[:, kept],
            y=table.y.clone(),
            node_id=list(table.node_id),
        )
        if edge_type is not None:
            data.edge_type = edge_type[kept]
        if self._edges.feature_names:
            attr, more = self._edges(table.edges)
            notes += more
            data.edge_attr = torch.from_numpy(attr)[kept]
        for note in notes:
            warnings.warn(note, TableWarning, stacklevel=2)
        return data

    def fit_transform(
        self, table: GraphTable, mask: Tensor | None = None
    ) -> Data:
        """Learn from a graph, and transform it."""
        return self.fit(table, mask).transform(table)

    @property
    def feature_names_(self) -> list[str]:
        """Names of the features."""
        return self._nodes.feature_names or ['one']

    @property
    def edge_feature_names_(self) -> list[str]:
        """Names of the features of edges."""
        return self._edges.feature_names

    def to_dict(self) -> dict[str, Any]:
        """All that was learned, ready for JSON and exact to the last bit."""
        return {
            'format': _FORMAT,
            'version': _VERSION,
            'encoding': self.encoding,
            'max_categories': self.max_categories,
            'layout': self.layout_.to_dict(),
            'relations': list(self.relations_),
            'nodes': self._nodes.state(),
            'edges': self._edges.state(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> 'Preprocessing':
        """The preprocessing that was saved; ValueError if it is damaged."""
        try:
            if values['format'] != _FORMAT:
                raise ValueError(f'its format is {values["format"]!r}')
            if values['version'] != _VERSION:
                raise ValueError(
                    f'its version is {values["version"]}, this one reads '
                    f'{_VERSION}'
                )
            result = cls(values['encoding'], values['max_categories'])
            result.layout_ = TableLayout.from_dict(values['layout'])
            result.relations_ = tuple(map(str, values['relations']))
            result._nodes = TableEncoder.from_state(values['nodes'])
            result._edges = TableEncoder.from_state(values['edges'])
        except _DAMAGED as error:
            raise ValueError(
                f'this is no saved preprocessing ({type(error).__name__}: '
                f'{error}); save it again'
            ) from error
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file, whole or not at all."""
        # training builds on this package, so it cannot be imported above
        from torch_energy_graph.train.checkpoint import write_atomic

        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        write_atomic(Path(path), text + '\n')

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> 'Preprocessing':
        """Read what :meth:`save` wrote; nothing of it is executed.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it is damaged, or of another version.
        """
        try:
            return cls.from_dict(json.loads(Path(path).read_text('utf-8')))
        except ValueError as error:
            raise ValueError(f"cannot read '{path}': {error}") from error

    def __repr__(self) -> str:
        return (
            f'Preprocessing(encoding={self.encoding!r}, '
            f'max_categories={self.max_categories})'
        )

    def _typed(
        self, table: GraphTable
    ) -> tuple[Tensor | None, Tensor, list[str]]:
        """Types by the fitted numbers, the edges to keep, and notes."""
        kept = torch.ones(table.num_edges, dtype=torch.bool)
        if not self.relations_:
            return None, kept, []
        if table.edge_type is None:
            if table.num_edges == 0:
                return table.edge_index[0], kept, []
            raise ValueError(
                f'{table.edges.title()}: expected a relation for each edge '
                f'({", ".join(self.relations_)})'
            )
        known = {name: i for i, name in enumerate(self.relations_)}
        number = torch.tensor(
            [known.get(name, -1) for name in table.relations]
        )
        edge_type = number[table.edge_type]
        kept = edge_type >= 0
        new = [name for name in table.relations if name not in known]
        if not new:
            return edge_type, kept, []
        note = (
            f'{table.edges.title()}: left out {int((~kept).sum())} edges of '
            f'relations the preprocessing was not fitted on '
            f'({", ".join(new)})'
        )
        return edge_type, kept, [note]


def _ones(num_nodes: int) -> NDArray[np.float32]:
    return np.ones((num_nodes, 1), np.float32)


def _check_table(table: object) -> None:
    if not isinstance(table, GraphTable):
        raise TypeError(
            f"'Preprocessing' expects a GraphTable (got "
            f"'{type(table).__name__}'); make one with from_csv, from_pandas "
            f'or from_networkx'
        )


def _rows(
    table: GraphTable, mask: Tensor | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the nodes to learn from, and of edges that touch them."""
    if mask is None:
        return np.arange(table.num_nodes), np.arange(table.num_edges)
    if mask.dtype != torch.bool or mask.shape != (table.num_nodes,):
        raise ValueError(
            f"'Preprocessing' expects a mask as bool of shape "
            f'[{table.num_nodes}] (got {list(mask.shape)} of {mask.dtype})'
        )
    if not bool(mask.any()):
        raise ValueError("'Preprocessing' expects at least one node to fit on")
    mask = mask.cpu()
    edges = mask[table.edge_index].any(dim=0)
    return mask.nonzero().view(-1).numpy(), edges.nonzero().view(-1).numpy()
