r"""Three shifts that turn a graph into another distribution of nodes.

The protocol of `"Energy-based Out-of-Distribution Detection for Graph Neural
Networks" <https://arxiv.org/abs/2302.02914>`_ (GNNSafe): a classifier is
trained on the graph as it is, and its scores must tell the nodes of the
shifted graph (structure, features), or of classes never trained on (labels),
from the test nodes.
"""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

__all__ = ['FeatureShift', 'LabelShift', 'StructureShift']


class StructureShift(BaseTransform):
    r"""Replaces the edges by those of a stochastic block model.

    Nodes are cut, in their order, into as many blocks of equal size as there
    are classes (the last one takes the rest). With the density
    :math:`d = E / (N (N - 1))` of the graph, pairs within a block are
    connected with probability :math:`p_\mathrm{in} d` and others with
    :math:`p_\mathrm{out} d`, in both directions. Attributes of edges are
    dropped, for the new edges have none.

    Args:
        seed (int): Seed of the edges; equal seeds give equal graphs.
        within (float, optional): :math:`p_\mathrm{in}`. (default: :obj:`1.5`)
        across (float, optional): :math:`p_\mathrm{out}`.
            (default: :obj:`0.5`)
        num_blocks (int, optional): Number of blocks; if :obj:`None`, of
            classes in :obj:`data.y`. (default: :obj:`None`)
    """

    def __init__(
        self,
        seed: int,
        within: float = 1.5,
        across: float = 0.5,
        num_blocks: int | None = None,
    ) -> None:
        bad_blocks = num_blocks is not None and num_blocks < 1
        if within < 0 or across < 0 or bad_blocks:
            raise ValueError(
                f"'StructureShift' expects within >= 0, across >= 0 and "
                f'num_blocks >= 1 (got {within}, {across} and {num_blocks})'
            )
        self.seed = seed
        self.within = within
        self.across = across
        self.num_blocks = num_blocks

    def forward(self, data: Data) -> Data:
        """Return the graph with other edges."""
        num_nodes = data.num_nodes
        num_blocks = self._blocks_of(data)
        density = data.num_edges / max(1, num_nodes * (num_nodes - 1))
        if max(self.within, self.across) * density > 1:
            raise ValueError(
                f"'StructureShift' cannot multiply a density of {density:.3g} "
                f'by {max(self.within, self.across)}: it would exceed 1'
            )
        rng = np.random.default_rng(self.seed)
        size = num_nodes // num_blocks
        starts = [size * block for block in range(num_blocks)]
        sizes = np.diff([*starts, num_nodes])
        parts = []
        for a, start in enumerate(starts):
            pairs = _pairs_within(rng, int(sizes[a]), self.within * density)
            parts.append(pairs + start)
            for b in range(a):
                pairs = _pairs_across(
                    rng, int(sizes[a]), int(sizes[b]), self.across * density
                )
                parts.append(pairs + np.array([[start], [starts[b]]]))
        pairs = np.concatenate(parts, axis=1)
        edges = np.concatenate([pairs, pairs[::-1]], axis=1)
        edges = edges[:, np.lexsort((edges[1], edges[0]))]
        for key in [key for key in data.keys() if data.is_edge_attr(key)]:  # noqa: SIM118
            del data[key]
        data.edge_index = torch.from_numpy(edges)
        return data

    def _blocks_of(self, data: Data) -> int:
        if self.num_blocks is None:
            if data.y is None or data.y.is_floating_point():
                raise ValueError(
                    "'StructureShift' takes the number of blocks from the "
                    "classes in data.y, which are absent; give 'num_blocks'"
                )
            num_blocks = int(data.y.max()) + 1
        else:
            num_blocks = self.num_blocks
        if not 1 <= num_blocks <= data.num_nodes:
            raise ValueError(
                f"'StructureShift' expects from 1 to {data.num_nodes} blocks, "
                f'the number of nodes (got {num_blocks})'
            )
        return num_blocks


class FeatureShift(BaseTransform):
    r"""Replaces the features of every node by a mixture of two random ones.

    .. math::
        x_i' = w_i\, x_{a_i} + (1 - w_i)\, x_{b_i}, \qquad
        w_i \sim U[0, 1], \quad a_i, b_i \sim U\{1, \dots, N\}

    Args:
        seed (int): Seed of the mixture.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def forward(self, data: Data) -> Data:
        """Return the graph with other features."""
        x = data.x
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise ValueError(
                f"'FeatureShift' expects floating-point features x (got "
                f'{x.dtype if isinstance(x, Tensor) else type(x).__name__})'
            )
        num_nodes = x.size(0)
        gen = torch.Generator().manual_seed(self.seed)
        a, b = torch.randint(num_nodes, (2, num_nodes), generator=gen)
        weight = torch.rand(num_nodes, 1, generator=gen).to(x)  # [N, 1]
        data.x = torch.lerp(x[b.to(x.device)], x[a.to(x.device)], weight)
        return data


class LabelShift(BaseTransform):
    r"""Leaves classes out: their nodes stay in the graph, without a label.

    The classes that remain are numbered anew, from 0 in their order, so that
    a classifier has no output without training nodes; nodes of classes left
    out get -1. Masks of training, validation and test nodes are reduced to
    nodes with a label. New are ``ood_mask``, the nodes of the classes left
    out, and ``exposed_mask``, those of classes that a loss with examples
    from outside may see (bool :math:`[N]` each, without a node in common).

    Args:
        left_out (iterable of int): Classes to detect.
        exposed (iterable of int, optional): Classes of examples from
            outside. (default: :obj:`()`)
    """

    def __init__(
        self, left_out: Iterable[int], exposed: Iterable[int] = ()
    ) -> None:
        self.left_out = tuple(sorted(set(left_out)))
        self.exposed = tuple(sorted(set(exposed)))
        if not self.left_out or set(self.left_out) & set(self.exposed):
            raise ValueError(
                f"'LabelShift' expects at least one class in left_out, and "
                f'none of them in exposed (got {list(self.left_out)} and '
                f'{list(self.exposed)})'
            )

    def forward(self, data: Data) -> Data:
        """Return the graph with fewer labels."""
        y = data.y
        if y is None or y.dim() != 1 or y.is_floating_point():
            raise ValueError(
                "'LabelShift' expects classes y of shape [N] as integers"
            )
        classes = y[y >= 0].unique()
        gone = y.new_tensor(self.left_out + self.exposed)
        absent = gone[~torch.isin(gone, classes)].tolist()
        kept = classes[~torch.isin(classes, gone)]
        if absent or kept.numel() < 2:
            raise ValueError(
                f"'LabelShift' expects to leave out classes that the graph "
                f'has ({classes.tolist()}) and to keep two or more (got '
                f'{gone.tolist()})'
            )
        known = torch.isin(y, kept)
        data.ood_mask = torch.isin(y, y.new_tensor(self.left_out))
        data.exposed_mask = torch.isin(y, y.new_tensor(self.exposed))
        data.y = torch.where(known, torch.searchsorted(kept, y), -1)
        for key in ('train_mask', 'val_mask', 'test_mask'):
            if key in data:
                mask = data[key]  # [N] or [N, S]
                data[key] = mask & known.view(-1, *[1] * (mask.dim() - 1))
        return data


def _pairs_within(
    rng: np.random.Generator, size: int, probability: float
) -> NDArray[np.int64]:
    """Each of the size (size - 1) / 2 pairs with this probability, [2, M]."""
    code = _chosen(rng, size * (size - 1) // 2, probability)
    # row i > j holds the codes i (i - 1) / 2 + j; below 2^52 the root of a
    # float64 is on the right side of every integer
    i = ((1 + np.sqrt(1 + 8 * code.astype(np.float64))) / 2).astype(np.int64)
    return np.stack([i, code - i * (i - 1) // 2])


def _pairs_across(
    rng: np.random.Generator, rows: int, columns: int, probability: float
) -> NDArray[np.int64]:
    """Each of the rows x columns pairs with this probability, [2, M]."""
    code = _chosen(rng, rows * columns, probability)
    return np.stack(np.divmod(code, columns))


def _chosen(
    rng: np.random.Generator, total: int, probability: float
) -> NDArray[np.int64]:
    """Each of the numbers below `total` with this probability, in O(M)."""
    count = rng.binomial(total, probability)
    return rng.choice(total, count, replace=False, shuffle=False)
