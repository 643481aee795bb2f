r"""Energy propagation: a node takes part of the mean of its in-neighbours.

.. math::
    e_i \leftarrow \alpha\, e_i + (1 - \alpha)
        \frac{1}{d_i} \sum_{(j, i) \in \mathcal{E}} e_j               (1)

with :math:`d_i` the number of in-edges; from `"Energy-based
Out-of-Distribution Detection for Graph Neural Networks"
<https://arxiv.org/abs/2302.02914>`_ (GNNSafe), where nothing is learned. It
helps where neighbours are of one kind, and harms where they are not: there,
the mean of the neighbours says little of a node, or the opposite.
"""

import warnings
from typing import Literal

import torch
from torch import Tensor

from torch_geometric.typing import Adj, OptTensor
from torch_geometric.utils import degree, homophily, scatter

from torch_energy_graph.ops import coo_edges

__all__ = ['EnergyPropagation']

HOMOPHILY = 0.5  # below, most neighbours are of another class


class EnergyPropagation(torch.nn.Module):
    r"""Repeats (1) on the energies, or the scores, of all nodes.

    Parallel edges count as often as they stand; weights are not read.

    Args:
        num_layers (int, optional): How often. (default: :obj:`2`)
        alpha (float, optional): What a node keeps of its own energy,
            :math:`\alpha \in [0, 1]`. (default: :obj:`0.5`)
        isolated (str, optional): What becomes of nodes without in-edges.
            :obj:`"keep"`: they keep their energy, since a mean of nothing is
            not zero. :obj:`"zero"`: their mean counts as zero, as in
            GNNSafe's code, so that :math:`\alpha^K e_i` remains after K
            steps. Most energies are negative: this marks isolated nodes as
            unknown, whatever their features. (default: :obj:`"keep"`)

    Example:
        >>> path = torch.tensor([[0, 1], [1, 2]])
        >>> EnergyPropagation(1)(torch.tensor([4.0, 0.0, 2.0]), path)
        tensor([4., 2., 1.])
    """

    def __init__(
        self,
        num_layers: int = 2,
        alpha: float = 0.5,
        isolated: Literal['keep', 'zero'] = 'keep',
    ) -> None:
        super().__init__()
        if isolated not in ('keep', 'zero'):
            raise ValueError(
                f"'EnergyPropagation' expects isolated 'keep' or 'zero' (got "
                f'{isolated!r})'
            )
        if num_layers < 0 or not 0 <= alpha <= 1:
            raise ValueError(
                f"'EnergyPropagation' expects num_layers >= 0 and alpha in "
                f'[0, 1] (got {num_layers} and {alpha})'
            )
        self.num_layers = num_layers
        self.alpha = alpha
        self.isolated = isolated

    def forward(
        self, energy: Tensor, edge_index: Adj, y: OptTensor = None
    ) -> Tensor:
        r"""Return the propagated energies :math:`[N]`.

        Args:
            energy (Tensor): Energies of the nodes, :math:`[N]`.
            edge_index (Adj or GraphCache): Edges, source to target.
            y (LongTensor, optional): Classes :math:`[N]`, -1 where unknown,
                which are only looked at to warn if fewer than half of the
                edges between known nodes join equal classes.
                (default: :obj:`None`)
        """
        if energy.dim() != 1:
            raise ValueError(
                f"'EnergyPropagation' expects one energy per node, of shape "
                f'[N] (got {list(energy.shape)})'
            )
        edges, _ = coo_edges(edge_index)
        if y is not None:
            _warn_if_heterophilous(edges, y)
        src, dst = edges.long()
        num_nodes = energy.size(0)
        count = degree(dst, num_nodes, dtype=energy.dtype)
        mixes = (count > 0) | (self.isolated == 'zero')
        for _ in range(self.num_layers):
            total = scatter(energy[src], dst, dim_size=num_nodes)
            mixed = torch.lerp(total / count.clamp(min=1), energy, self.alpha)
            energy = torch.where(mixes, mixed, energy)  # (1)
        return energy

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}(num_layers={self.num_layers}, '
            f'alpha={self.alpha}, isolated={self.isolated!r})'
        )


def _warn_if_heterophilous(edge_index: Tensor, y: Tensor) -> None:
    known = (y >= 0)[edge_index].all(dim=0)  # [E]
    if not bool(known.any()):
        return
    share = homophily(edge_index[:, known], y, method='edge')
    if share < HOMOPHILY:
        warnings.warn(
            f'only {share:.0%} of the edges join nodes of one class: '
            f'propagated energies are likely worse than plain ones here; '
            f'compare both on nodes whose origin you know',
            stacklevel=3,
        )
