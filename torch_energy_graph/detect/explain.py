"""Reasons for one score: energy, neighbours and features."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.data.tables.table import require_pandas
from torch_energy_graph.detect.attribution import feature_shares
from torch_energy_graph.detect.ego_graph import draw_ego_graph
from torch_energy_graph.detect.energy_parts import energy_parts
from torch_energy_graph.detect.graphs import edge_keywords
from torch_energy_graph.detect.scorer import Scorer
from torch_energy_graph.detect.surroundings import surroundings

__all__ = ['Explanation', 'explain_node']

Row = dict[str, Any]
_CANDIDATES = 4  # times the neighbours asked for


@dataclass(frozen=True)
class Explanation:
    """Why a node has its score.

    Energy and score are different things: the energy tells how well a node
    fits to its neighbours and to the memories, the score is read from the
    states by a trained head. Parts of the energy are no parts of the score;
    for the score, see the neighbours.

    Attributes:
        node: Id of the node.
        probability: Its calibrated probability.
        energy: Its energy after the descent, mean over the networks.
        parts: Parts that add up to :attr:`energy`, see
            :mod:`.energy_parts`; ``neighbor`` is an id.
        neighbors: What the probability would be ``without`` each neighbour,
            that is without the edges between the two, evaluated anew, and its
            ``effect``, the difference; largest effects first.
        num_neighbors: Number of all neighbours.
        num_evaluated: For how many of them, those of the strongest
            interactions, the score was evaluated.
        features: Shares of the features, largest first; empty if not asked
            for.
    """

    node: Any
    probability: float
    energy: float
    parts: list[Row]
    neighbors: list[Row]
    num_neighbors: int
    num_evaluated: int
    features: list[Row]

    def energy_table(self) -> Any:
        """The parts of the energy (not of the score), a DataFrame."""
        return require_pandas().DataFrame(
            self.parts,
            columns=['part', 'neighbor', 'relation', 'head', 'energy'],
        )

    def neighbor_table(self) -> Any:
        """What each neighbour does to the score, a DataFrame."""
        return require_pandas().DataFrame(
            self.neighbors,
            columns=['neighbor', 'without', 'effect', 'interaction'],
        )

    def feature_table(self) -> Any:
        """What the score rests on, a DataFrame."""
        return require_pandas().DataFrame(
            self.features, columns=['feature', 'share']
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the node among its neighbours; needs matplotlib.

        Args:
            ax (matplotlib.axes.Axes, optional): Where to draw; on a new
                figure if :obj:`None`. (default: :obj:`None`)

        Returns:
            matplotlib.axes.Axes: With the picture.
        """
        title = f'{self.node}: probability {self.probability:.3f}'
        return draw_ego_graph(self.node, self.neighbors, title, ax)


def explain_node(
    scorer: Scorer,
    graph: Data,
    ids: Sequence[Any],
    node: Any,
    top: int = 10,
    features: bool = True,
    names: Sequence[str] | None = None,
) -> Explanation:
    """Explain the score of a node.

    Args:
        scorer (Scorer): A fitted detector.
        graph (Data): The fields that are read, not encoded.
        ids (sequence): Ids of the nodes.
        node (Any): Id of the node.
        top (int, optional): Neighbours to return. (default: :obj:`10`)
        features (bool, optional): Whether to attribute to features.
            (default: :obj:`True`)
        names (sequence of str, optional): Names of the features.
            (default: :obj:`None`)
    """
    if node not in ids:
        raise ValueError(
            f'there is no node {node!r} (ids are like {list(ids[:3])})'
        )
    if top < 0:
        raise ValueError(f"expected 'top' >= 0 neighbours (got {top})")
    sub, near, place = surroundings(scorer, graph, [ids.index(node)])
    i = int(place)
    local = [ids[j] for j in near.tolist()]
    prepared = scorer.prepare(sub)
    energy, parts = _mean_parts(scorer, prepared, i)
    probability = _probability(scorer, prepared, i)
    neighbors = _by_interaction(sub, parts, i)
    rows = [
        _without(scorer, sub, i, j, interaction, probability)
        for j, interaction in neighbors[: _CANDIDATES * top]
    ]
    num_evaluated = len(rows)
    rows = sorted(rows, key=lambda row: -abs(row['effect']))[:top]
    return Explanation(
        node,
        probability,
        energy,
        [_named(row, local) for row in parts],
        [_named(row, local) for row in rows],
        len(neighbors),
        num_evaluated,
        _features(scorer, prepared, i, names) if features else [],
    )


@torch.no_grad()
def _mean_parts(
    scorer: Scorer, prepared: Data, node: int
) -> tuple[float, list[Row]]:
    """Energy of a node and its parts in float64, mean over the members."""
    double = prepared.clone()
    double.x = double.x.double()
    if 'edge_attr' in double:
        double.edge_attr = double.edge_attr.double()
    keywords = edge_keywords(double)
    total = 0.0
    rows: dict[tuple[Any, ...], Row] = {}
    for member in scorer.members:
        model = copy.deepcopy(member).double()
        state = model.block(model.embed(double.x), **keywords)  # x^T [N, C]
        energy = model.block.energy(state, **keywords, reduction='node')
        total += float(energy[node]) / len(scorer.members)
        for row in energy_parts(
            model.block, model.block.norm(state), double, node
        ):
            key = tuple(
                row[k] for k in ('part', 'neighbor', 'relation', 'head')
            )
            mean = rows.setdefault(key, {**row, 'energy': 0.0})
            mean['energy'] += row['energy'] / len(scorer.members)
    return total, list(rows.values())


def _by_interaction(
    graph: Data, parts: list[Row], node: int
) -> list[tuple[int, float]]:
    """Neighbours and their interaction energies, strongest first."""
    src, dst = graph.edge_index
    linked = torch.cat([src[dst == node], dst[src == node]]).unique()
    total = {j: 0.0 for j in linked.tolist() if j != node}
    for row in parts:
        if row['part'] == 'interaction' and row['neighbor'] in total:
            total[row['neighbor']] += row['energy']
    return sorted(total.items(), key=lambda item: -abs(item[1]))


def _without(
    scorer: Scorer,
    graph: Data,
    node: int,
    other: int,
    interaction: float,
    probability: float,
) -> Row:
    """The probability after the edges between two nodes are cut."""
    src, dst = graph.edge_index
    cut = (src == node) & (dst == other) | (src == other) & (dst == node)
    rest = scorer.prepare(_cut(graph, ~cut))
    without = _probability(scorer, rest, node)
    return {
        'neighbor': other,
        'without': without,
        'effect': probability - without,
        'interaction': interaction,
    }


def _cut(graph: Data, kept: Tensor) -> Data:
    rest = copy.copy(graph)
    for key in ('edge_type', 'edge_attr'):
        if key in graph:
            rest[key] = graph[key][kept]
    rest.edge_index = graph.edge_index[:, kept]
    return rest


def _probability(scorer: Scorer, prepared: Data, node: int) -> float:
    members = scorer.member_probabilities(prepared)[:, [node]]
    return float(scorer.calibration(members.mean(axis=0))[0])


def _features(
    scorer: Scorer, prepared: Data, node: int, names: Sequence[str] | None
) -> list[Row]:
    shares = feature_shares(scorer, prepared, node)
    names = names or [f'x{i}' for i in range(len(shares))]
    rows = [
        {'feature': name, 'share': share}
        for name, share in zip(names, shares, strict=True)
    ]
    return sorted(rows, key=lambda row: -row['share'])


def _named(row: Row, ids: Sequence[Any]) -> Row:
    j = row['neighbor']
    return row if j is None else {**row, 'neighbor': ids[j]}
