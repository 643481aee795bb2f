from typing import Callable, Optional, Sequence, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, Parameter

from torch_geometric.nn.inits import glorot
from torch_geometric.nn.resolver import activation_resolver
from torch_geometric.typing import OptTensor

from torch_energy_graph.nn.attention.association import (
    DenseAssociation,
    check_retrieval,
    retrieve,
)
from torch_energy_graph.nn.attention.hopfield_projection import (
    Beta,
    HopfieldProjection,
)

__all__ = ['Hopfield']

Patterns = Union[Tensor, Sequence[Tensor]]


class Hopfield(Module):
    r"""The association of two sets of the `"Hopfield Networks is All You
    Need" <https://arxiv.org/abs/2008.02217>`_ paper, on dense batches.

    .. math::
        P = \mathrm{softmax}(\beta_h Q K^\top), \qquad
        Q \leftarrow P K \ \text{(steps - 1 times)}, \qquad
        Z = \mathrm{concat}_h(P V)\, W_O

    with :math:`Q = \mathrm{norm}(R) W_Q`, :math:`K = \mathrm{norm}(Y) W_K`,
    :math:`V = \mathrm{norm}(Z) W_V` of state patterns R, stored patterns Y
    and pattern projections Z. With :obj:`steps=1` it is attention. The
    updates descend on
    :func:`~torch_energy_graph.energies.retrieval_energy` (:meth:`energy`);
    the value projection after them does not. A state whose patterns are all
    masked gets zeros. For sets of different sizes, see
    :class:`HopfieldAggregation` and :class:`HopfieldConv`, which need no
    padding.

    The options of ``hflayers`` that have an effect are here under these
    names; its state dicts are read by
    :func:`~torch_energy_graph.nn.attention.load_hflayers_state_dict`.

    ================================= =====================================
    hflayers                          here
    ================================= =====================================
    input_size, stored_pattern_size,  in_channels (states, stored,
    pattern_projection_size           projection)
    output_size, num_heads            out_channels, heads
    hidden_size, pattern_size         hidden_channels, value_channels:
                                      of all heads together
    scaling                           beta (per head, too, or learned)
    update_steps_max, -eps            steps = updates + 1, tol on states
    normalize_X, -affine, -eps        norm_X: a flag, or your own module
    X_as_static                       project_X=False; beta is not 1 then
    pattern_projection_as_connected   project_value='connected'
    association_activation            act
    input_bias, dropout               bias, dropout
    concat_bias_pattern               bias_pattern
    add_zero_association              separation='softmax1'
    disable_out_projection            project_out=False
    quantity, trainable               num_states, num_memories, trainable
    lookup_weights_as_separated       target_channels
    lookup_targets_as_trainable       train_targets
    batch_first                       always
    ================================= =====================================

    Args:
        in_channels (int or tuple): Sizes of states, stored patterns and
            projections, or one for all.
        out_channels (int, optional): Size of the output.
            (default: that of the states)
        heads (int, optional): Number of heads H. (default: :obj:`1`)
        hidden_channels (int, optional): Size of the association space, of
            all heads together. (default: that of the states, rounded down to
            a multiple of the heads)
        value_channels (int, optional): Size of the values, of all heads
            together. (default: :obj:`hidden_channels`)
        beta (float, Sequence, Tensor or str, optional): Inverse temperature:
            a number, one per head, or :obj:`"learn"` (one per head).
            (default: :math:`1 / \sqrt{d}` of head size d)
        steps (int, optional): Number of associations; the last reads the
            values. (default: :obj:`1`)
        tol (float, optional): A state whose update moved it by at most this
            distance is final; :obj:`steps` is the limit then.
            (default: :obj:`None`)
        separation (str, optional): :obj:`"softmax"`, :obj:`"sparsemax"`,
            :obj:`"entmax15"` or :obj:`"softmax1"`, whose weights sum to less
            than 1 as if a zero pattern was stored, too.
            (default: :obj:`"softmax"`)
        norm_state (bool or Module, optional): Whether a
            :class:`~torch.nn.LayerNorm` comes first, or a module instead.
            (default: :obj:`True`)
        norm_stored (bool or Module, optional): Same for stored patterns.
        norm_value (bool or Module, optional): Same for projections.
        norm_space (bool or Module, optional): A norm within the association
            space of a head, shared by states and stored patterns.
            (default: :obj:`False`)
        project_state (bool, optional): If set to :obj:`False`, states live
            in association space already, the same for all heads.
            (default: :obj:`True`)
        project_stored (bool, optional): Same for stored patterns.
        project_value (bool or str, optional): Same for projections;
            :obj:`"connected"` values are maps of the mapped stored patterns,
            :math:`V = K W_V`. (default: :obj:`True`)
        project_out (bool, optional): If set to :obj:`False`, the output are
            the concatenated heads. (default: :obj:`True`)
        bias_pattern (bool, optional): If set to :obj:`True`, one more
            pattern is stored in every set, with a learned key and value.
            (default: :obj:`False`)
        dropout (float, optional): Dropout of the weights that read the
            values. (default: :obj:`0.`)
        bias (bool, optional): If set to :obj:`False`, maps have no bias.
            (default: :obj:`True`)
        act (str or callable, optional): Activation of the output.
            (default: :obj:`None`)

    Shapes:
        - **input:** stored patterns :math:`(*, N, C)`, states
          :math:`(*, S, C)`, projections :math:`(*, N, C)`
        - **output:** :math:`(*, S, C_\mathrm{out})`; with
          :obj:`return_attention_weights`, also weights :math:`(*, H, S, N)`
    """

    energy_contract = 'retrieval'

    def __init__(
        self,
        in_channels: Union[int, Tuple[int, int, int]],
        out_channels: Optional[int] = None,
        heads: int = 1,
        hidden_channels: Optional[int] = None,
        value_channels: Optional[int] = None,
        beta: Beta = None,
        steps: int = 1,
        tol: Optional[float] = None,
        separation: str = 'softmax',
        norm_state: Union[bool, Module] = True,
        norm_stored: Union[bool, Module] = True,
        norm_value: Union[bool, Module] = True,
        norm_space: Union[bool, Module] = False,
        project_state: bool = True,
        project_stored: bool = True,
        project_value: Union[bool, str] = True,
        project_out: bool = True,
        bias_pattern: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        act: Union[str, Callable, None] = None,
    ):
        super().__init__()
        if project_value not in (True, False, 'connected'):
            raise ValueError(
                f"'Hopfield' expects project_value to be True, False or "
                f"'connected' (got {project_value!r})"
            )
        check_retrieval('Hopfield', steps, tol, separation)
        if isinstance(in_channels, int):
            in_channels = (in_channels, in_channels, in_channels)
        self.in_channels = in_channels
        self.heads = heads
        self.steps = steps
        self.tol = tol
        self.separation = separation
        self.dropout = dropout
        self.act = None if act is None else activation_resolver(act)
        self.maps = HopfieldProjection(
            in_channels,
            in_channels[0] if out_channels is None else out_channels,
            heads,
            hidden_channels,
            value_channels,
            beta,
            (norm_state, norm_stored, norm_value),
            norm_space,
            (project_state, project_stored, project_value),
            project_out,
            bias,
        )
        self.out_channels = self.maps.out_channels
        if bias_pattern:
            sizes = self.maps.head_channels, self.maps.value_channels
            key, value = (torch.empty(heads, 1, size) for size in sizes)
            self.bias_key = Parameter(key)
            self.bias_value = Parameter(value)
        else:
            self.register_parameter('bias_key', None)
            self.register_parameter('bias_value', None)
        self.reset_parameters()

    def reset_parameters(self):
        r"""Draws all weights anew."""
        self.maps.reset_parameters()
        glorot(self.bias_key)
        glorot(self.bias_value)

    def forward(
        self,
        patterns: Patterns,
        padding_mask: OptTensor = None,
        association_mask: OptTensor = None,
        return_attention_weights: Optional[bool] = None,
    ) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        r"""Associates states with stored patterns.

        Args:
            patterns (Tensor or tuple): Stored patterns, states and
                projections, in this order; projections are the stored
                patterns if left out, and one tensor is all three.
            padding_mask (Tensor, optional): Stored patterns to ignore,
                :math:`[*, N]`, where it is not zero.
            association_mask (Tensor, optional): A tensor that fits
                :math:`[*, H, S, N]`: forbidden where it is not zero
                (bool and integers), or added to the scores (floating point).
            return_attention_weights (bool, optional): If set to :obj:`True`,
                also returns the weights of the last association,
                :math:`[*, H, S, N]` (a bias pattern comes last).
        """
        stored, state, value = self._patterns(patterns)
        keys = self.maps.stored(stored)  # [*, N, H, d]
        found = self._associate(state, keys, padding_mask, association_mask)
        values = self._with_bias(
            self.maps.values(value, keys), self.bias_value
        )  # [*, H, N, P]
        state = retrieve(found, self.steps - 1, self.tol)
        weights = found.weights(state)  # [*, H, S, N]
        read = F.dropout(weights, self.dropout, training=self.training)
        out = self.maps.out(found.read(read, values).transpose(-2, -3))
        heard = weights.sum((-1, -3)) > 0  # [*, S]
        out = out.masked_fill(~heard.unsqueeze(-1), 0.0)
        out = out if self.act is None else self.act(out)
        return (out, weights) if return_attention_weights else out

    def energy(
        self,
        patterns: Patterns,
        padding_mask: OptTensor = None,
        association_mask: OptTensor = None,
        reduction: str = 'graph',
    ) -> Tensor:
        r"""The energy of the states, :obj:`steps` updates after the first.

        Args:
            patterns (Tensor or tuple): As in :meth:`forward`.
            padding_mask (Tensor, optional): As in :meth:`forward`.
            association_mask (Tensor, optional): As in :meth:`forward`.
            reduction (str, optional): :obj:`"graph"` or :obj:`"state"`.
                (default: :obj:`"graph"`)

        Returns:
            Tensor: The sum over the states of every set, :math:`[*]`, or
            that of every state, :math:`[*, H, S]`, for :obj:`"state"`.
        """
        if reduction not in ('graph', 'state'):
            raise ValueError(
                f"'reduction' must be 'graph' or 'state' (got {reduction!r})"
            )
        found = self.association(patterns, padding_mask, association_mask)
        energy = found.energy(retrieve(found, self.steps, self.tol))
        return energy if reduction == 'state' else energy.sum((-1, -2))

    def association(
        self,
        patterns: Patterns,
        padding_mask: OptTensor = None,
        association_mask: OptTensor = None,
    ) -> DenseAssociation:
        r"""States and stored patterns, for retrieval step by step.

        The arguments are those of :meth:`forward`.
        """
        stored, state, _ = self._patterns(patterns)
        keys = self.maps.stored(stored)
        return self._associate(state, keys, padding_mask, association_mask)

    def _associate(
        self,
        state: Tensor,
        keys: Tensor,
        padding_mask: OptTensor,
        association_mask: OptTensor,
    ) -> DenseAssociation:
        state = self.maps.states(state).transpose(-2, -3)  # [*, H, S, d]
        bias = _score_bias(padding_mask, association_mask, keys)
        if bias is not None and self.bias_key is not None:
            bias = F.pad(bias, (0, 1))  # the bias pattern is never masked
        return DenseAssociation(
            state,
            self._with_bias(keys, self.bias_key),
            self.maps.beta(),
            self.separation,
            bias,
        )

    def _with_bias(self, rows: Tensor, bias: OptTensor) -> Tensor:
        """Heads first, `[*, N, H, d]` to `[*, H, N, d]`, and one more row."""
        rows = rows.transpose(-2, -3)
        if bias is None:
            return rows
        bias = bias.expand(*rows.shape[:-2], 1, -1)
        return torch.cat([rows, bias], dim=-2)

    def _patterns(self, patterns: Patterns) -> Tuple[Tensor, ...]:
        """Stored patterns, states and projections."""
        if isinstance(patterns, Tensor):
            patterns = (patterns, patterns, patterns)
        elif len(patterns) == 2:
            patterns = (patterns[0], patterns[1], patterns[0])
        sizes = [self.in_channels[i] for i in (1, 0, 2)]
        for given, size in zip(patterns, sizes, strict=True):
            if given.dim() < 2 or given.size(-1) != size:
                raise ValueError(
                    f"'{self.__class__.__name__}' expects stored patterns, "
                    f'states and projections of {sizes} channels (got shapes '
                    f'{[list(p.shape) for p in patterns]})'
                )
        stored, _, value = patterns
        if stored.shape[:-1] != value.shape[:-1]:
            raise ValueError(
                f"'{self.__class__.__name__}' expects one projection per "
                f'stored pattern (got shapes {list(stored.shape)} and '
                f'{list(value.shape)})'
            )
        return tuple(patterns)

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.in_channels}, '
            f'{self.out_channels}, heads={self.heads}, steps={self.steps})'
        )


def _score_bias(
    padding_mask: OptTensor, association_mask: OptTensor, keys: Tensor
) -> OptTensor:
    """Both masks as a bias of the scores, fits `[*, H, S, N]`."""
    bias, shape = None, keys.shape[:-2]  # [*, N]
    if padding_mask is not None:
        if padding_mask.shape != shape or padding_mask.is_floating_point():
            raise ValueError(
                f"'padding_mask' must mark each of the stored patterns, "
                f'{list(shape)}, as bool or integer (got '
                f'{list(padding_mask.shape)} of {padding_mask.dtype})'
            )
        bias = _forbidding(padding_mask, keys)[..., None, None, :]
    if association_mask is None:
        return bias
    if not association_mask.is_floating_point():
        association_mask = _forbidding(association_mask, keys)
    return association_mask if bias is None else bias + association_mask


def _forbidding(mask: Tensor, keys: Tensor) -> Tensor:
    zeros = torch.zeros_like(mask, dtype=keys.dtype)
    return zeros.masked_fill(mask != 0, -torch.inf)
