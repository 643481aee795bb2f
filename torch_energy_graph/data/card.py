"""The data card of a user's tables: counts, and what to beware of."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.utils import coalesce, degree

from torch_energy_graph.data.facts import (
    anomaly_homophily,
    edge_homophily,
    graph_counts,
    label_counts,
)
from torch_energy_graph.data.leakage import (
    column_auroc,
    id_aurocs,
    row_order_auroc,
)
from torch_energy_graph.data.tables.cells import texts
from torch_energy_graph.data.tables.graph_table import GraphTable
from torch_energy_graph.data.tables.kinds import Kind, parse
from torch_energy_graph.data.tables.table import Table, require_pandas

__all__ = ['data_card']

LEAK = 0.99  # AUROC of one column alone
ORDERED = 0.75  # AUROC of the row number
TELLING = 0.95  # share of anomalies among the neighbours of anomalies
FEW = 20  # anomalies: with fewer, scores are mostly chance
GAPS = 0.5  # share of missing cells


def data_card(table: GraphTable) -> dict[str, Any]:
    r"""Facts of a graph from tables, ready for JSON.

    Args:
        table (GraphTable): What ``from_csv`` and its like return.

    Returns:
        dict: Counts, prevalence and homophily as in
        :func:`~torch_energy_graph.datasets.info`; 'num_duplicate_edges';
        'degree', the in-degrees' distribution, and the share of all edges
        that end in the 1 % of nodes with most; 'relations', with the same
        facts of each; 'columns' and 'edge_columns', with kind, missing cells,
        distinct values and, of nodes, the AUROC of the column alone; 'notes'
        on how the tables were read; and 'warnings'.

    Raises:
        ValueError: If a cell cannot be read; the message names it.
    """
    data = Data(
        edge_index=table.edge_index, y=table.y, num_nodes=table.num_nodes
    )
    card: dict[str, Any] = {
        **graph_counts(data),
        'num_features': len(table.node_kinds),
        'num_duplicate_edges': _duplicates(table),
        'num_added': table.num_added,
        **label_counts(table.y),
        'homophily': edge_homophily(table.edge_index, table.y),
        'anomaly_homophily': anomaly_homophily(table.edge_index, table.y),
        'degree': _degrees(table.edge_index, table.num_nodes),
        'relations': _relations(table),
        'columns': _node_columns(table),
        'edge_columns': [
            _column(table.edges, name, kind)
            for name, kind in table.edge_kinds.items()
        ],
        'notes': list(table.notes),
    }
    return {**card, 'warnings': [*_warnings(card), *_more_warnings(table)]}


def _duplicates(table: GraphTable) -> int:
    typed = table.edge_type
    if typed is None:
        typed = torch.zeros(table.num_edges, dtype=torch.long)
    # one number per source and type, so that coalesce tells them apart
    src = table.edge_index[0] * max(1, len(table.relations)) + typed
    size = table.num_nodes * max(1, len(table.relations))
    simple = coalesce(torch.stack([src, table.edge_index[1]]), num_nodes=size)
    return table.num_edges - int(simple.size(1))


def _degrees(edge_index: Tensor, num_nodes: int) -> dict[str, Any]:
    counts = degree(edge_index[1], num_nodes, torch.long).numpy()
    top = -(-num_nodes // 100)
    hubs = int(np.sort(counts)[-top:].sum())
    return {
        'mean': float(counts.mean()),
        **{f'p{q}': float(np.percentile(counts, q)) for q in (50, 90, 99)},
        'max': int(counts.max()),
        'share_of_top_1_percent': hubs / max(1, int(counts.sum())),
    }


def _relations(table: GraphTable) -> list[dict[str, Any]]:
    found = []
    for number, name in enumerate(table.relations):
        assert table.edge_type is not None  # there are relations
        edge_index = table.edge_index[:, table.edge_type == number]
        found.append(
            {
                'name': name,
                'num_edges': edge_index.size(1),
                'homophily': edge_homophily(edge_index, table.y),
                'anomaly_homophily': anomaly_homophily(edge_index, table.y),
            }
        )
    return found


def _node_columns(table: GraphTable) -> list[dict[str, Any]]:
    known = (table.y >= 0).numpy()
    y = table.y.numpy()[known]
    columns = []
    for name, kind in table.node_kinds.items():
        values = parse(table.nodes, name, kind)
        facts = _column(table.nodes, name, kind)
        facts['auroc'] = column_auroc(values[known], kind, y)
        columns.append(facts)
    return columns


def _column(table: Table, name: str, kind: Kind) -> dict[str, Any]:
    values = parse(table, name, kind)
    absent = values == '' if kind == 'category' else np.isnan(values)
    distinct = require_pandas().unique(values[~absent])
    return {
        'name': name,
        'kind': kind,
        'missing': int(absent.sum()),
        'distinct': len(distinct),
    }


def _warnings(card: dict[str, Any]) -> list[str]:
    found = []
    if card['num_labeled'] == 0:
        found.append('no node has a label: nothing can be trained')
    elif card['num_anomalies'] in (0, card['num_labeled']):
        found.append('all labels are equal: nothing can be trained')
    elif card['num_anomalies'] < FEW:
        found.append(
            f'{card["num_anomalies"]} anomalies: differences between models '
            f'will mostly be chance'
        )
    if card['num_edges'] == card['num_self_loops']:
        found.append('no edge connects two nodes: the graph tells nothing')
    if card['num_added']:
        found.append(
            f'{card["num_added"]} ids are in edges only: training refuses '
            f"them, unless missing_nodes is 'add' or 'drop'"
        )
    if card['num_self_loops']:
        found.append(
            f'{card["num_self_loops"]} self-loops: remove them before a '
            f'layer adds its own'
        )
    if card['num_duplicate_edges']:
        found.append(
            f'{card["num_duplicate_edges"]} parallel edges of one type: they '
            f'count as often as they stand'
        )
    for column in card['columns']:
        found += _column_warnings(column, card['num_nodes'])
    for place in (card, *card['relations']):
        share = place['anomaly_homophily']
        if share is not None and share > TELLING:
            name = (
                f"relation '{place['name']}'" if 'name' in place else 'edges'
            )
            found.append(
                f'{name}: {share:.1%} of the neighbours of anomalies are '
                f'anomalies; were the edges made with knowledge of the '
                f'labels?'
            )
    return found


def _column_warnings(column: dict[str, Any], num_nodes: int) -> list[str]:
    name, distinct = column['name'], column['distinct']
    found = []
    if column['auroc'] is not None and column['auroc'] > LEAK:
        found.append(
            f'AUROC {column["auroc"]:.3f} by itself: is it known before the '
            f'label is? If not, it has to be ignored'
        )
    if distinct < 2:
        what = 'the same everywhere' if distinct else 'empty'
        found.append(f'{what}: it tells nothing')
    if column['kind'] == 'category' and distinct > 0.5 * num_nodes > 10:
        found.append(
            f'{distinct} different texts: it looks like an identifier or '
            f'free text; ignore it, or group its values'
        )
    if column['kind'] == 'time':
        found.append('times: random splits leak the future, split by time')
    if distinct and column['missing'] > GAPS * num_nodes:
        found.append(f'{column["missing"] / num_nodes:.0%} are missing')
    return [f"column '{name}': {text}" for text in found]


def _more_warnings(table: GraphTable) -> list[str]:
    """What only the tables tell: ids, order of rows, equal rows."""
    known = (table.y >= 0).numpy()
    y = table.y.numpy()[known]
    ids = [i for i, k in zip(table.node_id, known, strict=True) if k]
    found = [
        f'ids tell the label by their {part} (AUROC {area:.3f}); they are no '
        f'features, but whatever follows them, such as an order, leaks'
        for part, area in id_aurocs(ids, y).items()
        if area is not None and area > LEAK
    ]
    area = row_order_auroc(np.flatnonzero(known), y)
    if area is not None and area > ORDERED:
        found.append(
            f'rows are ordered by label (AUROC {area:.3f} of the row '
            f'number): use random stratified splits only'
        )
    same, unlike = _equal_rows(table)
    if same:
        found.append(
            f'{same} nodes have the same features as another one, {unlike} '
            f'of them with another label: copies in training and test flatter '
            f'a model'
        )
    return found


def _equal_rows(table: GraphTable) -> tuple[int, int]:
    """Nodes with a twin in all columns, and those whose twins differ in y."""
    pandas = require_pandas()
    if not table.nodes.columns:
        return 0, 0
    frame = pandas.DataFrame(
        {name: texts(table.nodes.frame[name]) for name in table.nodes.columns}
    )
    twins: NDArray[np.bool_] = frame.duplicated(keep=False).to_numpy()
    known = twins & (table.y >= 0).numpy()
    groups = frame[known].groupby(list(frame.columns), sort=False).ngroup()
    labels = pandas.Series(table.y.numpy()[known], index=groups.index)
    kinds = labels.groupby(groups).transform('nunique')
    return int(twins.sum()), int((kinds > 1).sum())
