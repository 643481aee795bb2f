from typing import Union

import torch
from torch import Tensor

from torch_energy_graph.energies.retrieval import retrieval_energy
from torch_energy_graph.energies.separation import separate
from torch_energy_graph.ops.ragged import cut

__all__ = ['SetAssociation', 'first_scores']


class SetAssociation:
    r"""Learned states, and the elements of the set of each.

    Keys are linear in the elements, :math:`k = A \tilde x` with
    :math:`\tilde x = [x, 1]`, so neither they nor values are computed for
    every element:

    .. math::
        k_j^\top \xi = \tilde x_j^\top (A^\top \xi), \qquad
        \sum_j p_j k_j = A \sum_j p_j \tilde x_j

    The 1 is not stored.

    Both sums run over tiles of 64 elements of one set, as matrix products;
    nothing is padded to the size of the largest set.

    Args:
        state (Tensor): Initial states, the same in all sets,
            :math:`[S, H, d]`.
        elements (Tensor): :math:`x`, :math:`[N, C]`.
        keys (Tensor): :math:`A`, :math:`[H, d, C + 1]`.
        index (LongTensor): Set of every element, :math:`[N]`, in any order.
        num_sets (int): B.
        beta (float or Tensor): Inverse temperature, one for all or
            :math:`[H]`.
        separation (str): Name of the separation function.
    """

    def __init__(
        self,
        state: Tensor,
        elements: Tensor,
        keys: Tensor,
        index: Tensor,
        num_sets: int,
        beta: Union[float, Tensor],
        separation: str,
    ):
        self.state = state
        self.elements = elements
        self.keys = keys
        self.index = index
        self.num_sets = num_sets
        self.beta = beta
        self.separation = separation
        self.tiles = cut(index, num_sets)
        self.packed = self.tiles.pack(elements)  # [L, 64, C]

    def weights(self, state: Tensor) -> Tensor:
        r"""Association weights :math:`[N, S, H]`, float32 at least."""
        if state.dim() == 3:  # all sets have it
            scores = first_scores(state, self.elements, self.keys, self.beta)
        else:
            query = _queries(state, self.keys, self.beta)  # [B, S, H, C + 1]
            query = self.tiles.spread(query.flatten(1, 2))  # [L, S * H, C + 1]
            shift, maps = query[..., -1:].mT, query[..., :-1].mT
            scores = torch.baddbmm(shift, self.packed, maps)  # [L, 64, S * H]
            scores = self.tiles.unpack(scores)
            scores = scores.unflatten(-1, state.shape[1:3])
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return separate(
            scores, self.separation, self.index, num_sets=self.num_sets
        )

    def pool(self, weights: Tensor) -> Tensor:
        r""":math:`\sum_j p_j \tilde x_j`, :math:`[B, S, H, C + 1]`."""
        tiles = self.tiles.pack(weights.flatten(1).to(self.packed.dtype))
        mass = tiles.sum(1).unsqueeze(-1)  # [L, S * H, 1]
        pooled = torch.cat([tiles.mT @ self.packed, mass], dim=-1)
        wide = torch.promote_types(pooled.dtype, torch.float32)
        pooled = self.tiles.total(pooled.to(wide)).to(pooled.dtype)
        return pooled.unflatten(1, weights.shape[1:])

    def step(self, state: Tensor) -> Tensor:
        r"""States after one update, :math:`[B, S, H, d]`."""
        pooled = self.pool(self.weights(state))
        return torch.einsum('bshc,hdc->bshd', pooled, self.keys)

    def energy(self, state: Tensor) -> Tensor:
        r"""Energy of every state, :math:`[B, S, H]`."""
        maps, shift = self.keys[..., :-1], self.keys[..., -1]
        stored = torch.einsum('nc,hdc->nhd', self.elements, maps) + shift
        if state.dim() == 3:
            state = state.expand(self.num_sets, *state.shape)
        return retrieval_energy(
            state,
            stored,
            self.beta,
            self.separation,
            index=self.index,
        )


def first_scores(
    state: Tensor,
    elements: Tensor,
    keys: Tensor,
    beta: Union[float, Tensor],
) -> Tensor:
    r"""Scores of elements for states that all sets share,
    :math:`[N, S, H]`.
    """
    query = _queries(state, keys, beta)  # [S, H, C + 1]
    query = query.flatten(0, 1)
    scores = torch.addmm(query[:, -1], elements, query[:, :-1].t())
    return scores.unflatten(-1, state.shape[:2])


def _queries(
    state: Tensor, keys: Tensor, beta: Union[float, Tensor]
) -> Tensor:
    """Beta times the states, as maps of elements, `[*, S, H, C + 1]`."""
    if isinstance(beta, Tensor):
        beta = beta.to(state.dtype).unsqueeze(-1)
    return torch.einsum('...shd,hdc->...shc', beta * state, keys)
