from typing import Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import LayerNorm, Module, Parameter

from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.pool.select.topk import topk
from torch_geometric.typing import OptTensor

from torch_energy_graph.nn.aggr.set_association import (
    SetAssociation,
    first_scores,
)
from torch_energy_graph.nn.attention.association import (
    check_retrieval,
    retrieve,
)
from torch_energy_graph.nn.attention.hopfield_projection import (
    Beta,
    HopfieldProjection,
)
from torch_energy_graph.ops import scatter_softmax
from torch_energy_graph.ops.ragged import batch_of

__all__ = ['HopfieldAggregation', 'HopfieldPooling']


class HopfieldAggregation(Aggregation):
    r"""The pooling of the `"Hopfield Networks is All You Need"
    <https://arxiv.org/abs/2008.02217>`_ paper: learned states associate with
    the elements of every set.

    .. math::
        p = \mathrm{softmax}(\beta_h K \xi), \qquad
        \xi \leftarrow K^\top p \ \text{(steps - 1 times)}, \qquad
        z = W_O\, \mathrm{concat}_h\, V^\top p

    with keys :math:`k_j = W_K\, \mathrm{norm}(x_j)` and values
    :math:`v_j = W_V\, \mathrm{norm}(x_j)` of the elements, and
    :math:`\xi = W_Q\, \mathrm{norm}(r)` of each learned state r. The first
    association starts at the same state in every set. The updates
    descend on :func:`~torch_energy_graph.energies.retrieval_energy`
    (:meth:`energy`); the value projection after them does not.

    Keys and values are linear in the elements and are never computed: the
    cost is :math:`O(N S H C)` per step, and nothing is padded. Sets do not
    influence each other, and an empty one gives zeros.

    Args:
        in_channels (int): Size of the elements.
        out_channels (int, optional): Size of the output of a state.
            (default: :obj:`in_channels`)
        num_states (int, optional): Number of learned states S.
            (default: :obj:`1`)
        heads (int, optional): Number of heads H. (default: :obj:`1`)
        hidden_channels (int, optional): Size of the association space, of
            all heads together. (default: :obj:`in_channels`, rounded down to
            a multiple of the heads)
        value_channels (int, optional): Size of the values, of all heads
            together. (default: :obj:`hidden_channels`)
        beta (float, Sequence, Tensor or str, optional): Inverse temperature:
            a number, one per head, or :obj:`"learn"` (one per head).
            (default: :math:`1 / \sqrt{d}` of head size d)
        steps (int, optional): Number of associations; the last reads the
            values. (default: :obj:`1`, attention)
        tol (float, optional): A state whose update moved it by at most this
            distance is final; :obj:`steps` is the limit then.
            (default: :obj:`None`)
        separation (str, optional): Instead of the softmax,
            :obj:`"sparsemax"`, :obj:`"entmax15"` or :obj:`"softmax1"`, whose
            weights sum to less than 1 as if a zero element was in every set.
            (default: :obj:`"softmax"`)
        norm (bool, optional): Whether elements and states are normalised by
            a :class:`~torch.nn.LayerNorm` first. (default: :obj:`True`)
        concat (bool, optional): If set to :obj:`False`, the outputs of the
            states are averaged instead of concatenated.
            (default: :obj:`True`)
        dropout (float, optional): Dropout of the weights that read the
            values. (default: :obj:`0.`)
        bias (bool, optional): If set to :obj:`False`, maps have no bias.
            (default: :obj:`True`)
        top_k (int or float, optional): Only so many elements of every set,
            or this share of them (rounded up), take part: those with the
            largest weight in the first association, in any head of any
            state. A first pass without gradients finds them,
            :obj:`chunk_size` elements at a time, so that only those kept
            need memory. Not under ``torch.compile``.
            (default: :obj:`None`, all)
        trainable (bool, optional): If set to :obj:`False`, the states stay
            as they were drawn. (default: :obj:`True`)

    Shapes:
        - **input:** elements :math:`(N, C_\mathrm{in})`, index :math:`(N)`
          in any order, or pointers :math:`(B + 1)`
        - **output:** :math:`(B, S \cdot C_\mathrm{out})`, or
          :math:`(B, C_\mathrm{out})` with :obj:`concat=False`; with
          :obj:`return_attention_weights`, also weights :math:`(N, S, H)`
    """

    energy_contract = 'retrieval'

    #: Elements per chunk of the first pass of :obj:`top_k`.
    chunk_size = 2**16

    def __init__(
        self,
        in_channels: int,
        out_channels: Optional[int] = None,
        num_states: int = 1,
        heads: int = 1,
        hidden_channels: Optional[int] = None,
        value_channels: Optional[int] = None,
        beta: Beta = None,
        steps: int = 1,
        tol: Optional[float] = None,
        separation: str = 'softmax',
        norm: bool = True,
        concat: bool = True,
        dropout: float = 0.0,
        bias: bool = True,
        top_k: Union[int, float, None] = None,
        trainable: bool = True,
    ):
        super().__init__()
        out_channels = in_channels if out_channels is None else out_channels
        if min(out_channels, num_states) < 1:
            raise ValueError(
                f"'HopfieldAggregation' expects out_channels >= 1 and "
                f'num_states >= 1 (got {out_channels} and {num_states})'
            )
        check_retrieval('HopfieldAggregation', steps, tol, separation)
        _check_top_k(top_k)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.num_states = num_states
        self.heads = heads
        self.steps = steps
        self.tol = tol
        self.separation = separation
        self.concat = concat
        self.dropout = dropout
        self.top_k = top_k
        self.maps = HopfieldProjection(
            (in_channels, in_channels, in_channels),
            out_channels,
            heads,
            hidden_channels,
            value_channels,
            beta,
            norms=(norm, norm, norm),
            bias=bias,
        )
        self.states = Parameter(
            torch.empty(num_states, in_channels), requires_grad=trainable
        )
        self.reset_parameters()

    def reset_parameters(self):
        r"""Draws states and maps anew."""
        torch.nn.init.normal_(self.states)
        self.maps.reset_parameters()

    def forward(
        self,
        x: Tensor,
        index: OptTensor = None,
        ptr: OptTensor = None,
        dim_size: Optional[int] = None,
        dim: int = -2,
        return_attention_weights: Optional[bool] = None,
    ) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        r"""Pools every set.

        Args:
            x (Tensor): Elements :math:`[N, C_\mathrm{in}]`.
            index (LongTensor, optional): Set of every element, :math:`[N]`,
                in any order.
            ptr (LongTensor, optional): Boundaries of sorted sets,
                :math:`[B + 1]`; an alternative to :obj:`index`.
            dim_size (int, optional): Number of sets B.
            dim (int, optional): The axis of the elements, 0 or -2.
                (default: :obj:`-2`)
            return_attention_weights (bool, optional): If set to :obj:`True`,
                also returns the weights of the last association,
                :math:`[N, S, H]`; they are 0 where :obj:`top_k` leaves an
                element out.
        """
        self.assert_two_dimensional_input(x, dim)
        found, kept = self._associate(x, index, ptr, dim_size)
        state = retrieve(found, self.steps - 1, self.tol)
        weights = found.weights(state)  # [N, S, H]
        pooled = found.pool(
            F.dropout(weights, self.dropout, training=self.training)
        )
        maps = self.maps
        values = _folded(maps.lin_value, maps.norm_value, self.heads)
        out = torch.einsum('bshc,hpc->bshp', pooled, values)
        out = maps.out(out)  # [B, S, C_out]
        out = out * (found.tiles.count > 0).view(-1, 1, 1)
        out = out.flatten(1) if self.concat else out.mean(1)
        if not return_attention_weights:
            return out
        if kept is not None:
            full = weights.new_zeros(x.size(0), *weights.shape[1:])
            weights = full.index_copy(0, kept, weights)
        return out, weights

    def energy(
        self,
        x: Tensor,
        index: OptTensor = None,
        ptr: OptTensor = None,
        dim_size: Optional[int] = None,
        reduction: str = 'graph',
    ) -> Tensor:
        r"""The energy of the states, :obj:`steps` updates after the first.

        Args:
            x (Tensor): Elements :math:`[N, C_\mathrm{in}]`.
            index (LongTensor, optional): Set of every element, :math:`[N]`.
            ptr (LongTensor, optional): Boundaries of sorted sets.
            dim_size (int, optional): Number of sets B.
            reduction (str, optional): :obj:`"graph"` or :obj:`"state"`.
                (default: :obj:`"graph"`)

        Returns:
            Tensor: The sum over the states of every set, :math:`[B]`, or
            that of every state, :math:`[B, S, H]`, for :obj:`"state"`.
        """
        if reduction not in ('graph', 'state'):
            raise ValueError(
                f"'reduction' must be 'graph' or 'state' (got {reduction!r})"
            )
        found = self.association(x, index, ptr, dim_size)
        energy = found.energy(retrieve(found, self.steps, self.tol))
        return energy if reduction == 'state' else energy.sum((1, 2))

    def association(
        self,
        x: Tensor,
        index: OptTensor = None,
        ptr: OptTensor = None,
        dim_size: Optional[int] = None,
    ) -> SetAssociation:
        r"""First states and elements, for retrieval step by step.

        The arguments are those of :meth:`forward`.
        """
        return self._associate(x, index, ptr, dim_size)[0]

    def first_scores(self, x: Tensor) -> Tensor:
        r"""Scores of elements in the first association, :math:`[N, S, H]`.

        They do not depend on the set of an element, so elements may come in
        parts.

        Args:
            x (Tensor): Elements :math:`[N, C_\mathrm{in}]`.
        """
        return first_scores(
            self.maps.states(self.states),
            self._elements(x),
            self._keys(),
            self.maps.beta(),
        )

    @torch.no_grad()
    def select(self, scores: Tensor, index: Tensor) -> Tensor:
        r"""The elements that :obj:`top_k` keeps.

        Args:
            scores (Tensor): From :meth:`first_scores`, :math:`[N, S, H]`.
            index (LongTensor): Set of every element, :math:`[N]`.

        Returns:
            LongTensor: Their positions, ascending.
        """
        wide = torch.promote_types(scores.dtype, torch.float32)
        scores = scores.flatten(1).to(wide)
        if scores.size(1) == 1:
            best = scores.squeeze(1)
        else:  # columns are comparable as weights within a set
            best = scatter_softmax(scores, index).amax(1)
        return topk(best, self.top_k, index).sort().values

    def _associate(
        self,
        x: Tensor,
        index: OptTensor,
        ptr: OptTensor,
        dim_size: Optional[int],
    ) -> Tuple[SetAssociation, OptTensor]:
        """Also the positions of the elements that `top_k` keeps."""
        if x.dim() != 2 or x.size(1) != self.in_channels:
            raise ValueError(
                f"'{self.__class__.__name__}' expects elements of shape "
                f'[N, {self.in_channels}] (got {list(x.shape)})'
            )
        ptr = None if index is not None else ptr  # PyG passes both
        index, num_sets = batch_of(x.size(0), index, ptr, dim_size)
        if index is None:
            index = torch.zeros_like(x[:, 0], dtype=torch.long)
        kept = None
        if self.top_k is not None:
            kept = self.select(self._chunked_scores(x), index)
            x, index = x[kept], index[kept]
        found = SetAssociation(
            self.maps.states(self.states),
            self._elements(x),
            self._keys(),
            index,
            num_sets,
            self.maps.beta(),
            self.separation,
        )
        return found, kept

    @torch.no_grad()
    def _chunked_scores(self, x: Tensor) -> Tensor:
        parts = x.split(self.chunk_size)
        return torch.cat([self.first_scores(part) for part in parts])

    def _elements(self, x: Tensor) -> Tensor:
        """What keys and values are linear in, `[N, C]`."""
        norm = self.maps.norm_stored
        if not isinstance(norm, LayerNorm):
            return x
        return F.layer_norm(x, norm.normalized_shape, eps=norm.eps)

    def _keys(self) -> Tensor:
        maps = self.maps
        return _folded(maps.lin_stored, maps.norm_stored, self.heads)

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.in_channels}, '
            f'{self.out_channels}, num_states={self.num_states}, '
            f'heads={self.heads}, steps={self.steps})'
        )


HopfieldPooling = HopfieldAggregation


def _folded(lin: Linear, norm: Optional[Module], heads: int) -> Tensor:
    """A map after the affine part of a norm, `[H, D, C + 1]`."""
    weight = lin.weight
    shift = weight.new_zeros(weight.size(0)) if lin.bias is None else lin.bias
    if isinstance(norm, LayerNorm):
        shift = shift + weight @ norm.bias
        weight = weight * norm.weight
    folded = torch.cat([weight, shift.unsqueeze(-1)], dim=-1)
    return folded.view(heads, -1, folded.size(-1))


def _check_top_k(top_k: Union[int, float, None]) -> None:
    if top_k is None:
        return
    share = isinstance(top_k, float)
    if (share and not 0 < top_k < 1) or (not share and top_k < 1):
        raise ValueError(
            f"'HopfieldAggregation' expects top_k to be a number of elements "
            f'(int >= 1) or a share of them (float between 0 and 1) '
            f'(got {top_k!r})'
        )
