"""Scores of many nodes, some at a time."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from torch_geometric.data import Data

from torch_energy_graph.data import GraphTable
from torch_energy_graph.detect.graphs import node_ids
from torch_energy_graph.detect.surroundings import surroundings

if TYPE_CHECKING:
    from torch_energy_graph.detect.detector import EnergyFraudDetector

__all__ = ['score_batches']

_MOST = 0.5  # share of a graph above which scoring all of it is cheaper


def score_batches(
    detector: 'EnergyFraudDetector',
    data: Data | GraphTable,
    nodes: Sequence[int],
    batch_size: int,
    start: int = 0,
) -> Iterator[Any]:
    """Rows of ``score_table`` for some nodes, batch by batch.

    A batch is scored within its surroundings, so that a large graph takes the
    memory of these only. Where they are more than half of the graph, all of
    it is scored, once. What a batch looks like does not depend on those
    before it: with the same :obj:`start` or a later one, rows are equal to
    the last bit.

    Args:
        detector (EnergyFraudDetector): A fitted detector.
        data (Data or GraphTable): The graph.
        nodes (sequence of int): Which nodes, by number.
        batch_size (int): Nodes of a batch.
        start (int, optional): Position in :obj:`nodes` of the first batch, a
            multiple of :obj:`batch_size`. (default: :obj:`0`)

    Yields:
        pandas.DataFrame: See ``EnergyFraudDetector.score_table``.

    Raises:
        ValueError: If a number is out of range.
    """
    if batch_size < 1 or (start % batch_size and start < len(nodes)):
        raise ValueError(
            f"expected 'batch_size' >= 1 and 'start' as a multiple of it (got "
            f'{batch_size} and {start})'
        )
    ids = node_ids(data)
    graph = detector._graph(data)  # checked, in its fitted form
    whole = None
    for first in range(start, len(nodes), batch_size):
        batch = nodes[first : first + batch_size]
        near, _, places = surroundings(detector.scorer_, graph, batch)
        if near.num_nodes > _MOST * graph.num_nodes:
            whole = detector.score_table(graph) if whole is None else whole
            rows = whole.iloc[list(batch)]
        else:
            rows = detector.score_table(near).iloc[places.tolist()]
        rows = rows.reset_index(drop=True)
        rows['id'] = [ids[i] for i in batch]
        yield rows
