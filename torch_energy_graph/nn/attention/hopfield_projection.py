import math
from typing import Optional, Sequence, Tuple, Union

import torch
from torch import Tensor
from torch.nn import LayerNorm, Module

from torch_geometric.nn.dense.linear import Linear

from torch_energy_graph.nn.positive import PositiveScalar

__all__ = ['Beta', 'HopfieldProjection', 'make_beta']

Beta = Union[float, str, Sequence[float], Tensor, None]


def make_beta(beta: Beta, default: float, heads: int) -> Module:
    r"""A module that returns the inverse temperature, one or :math:`[H]`.

    Args:
        beta (float, Sequence, Tensor, str or None): A number, one per head,
            or :obj:`"learn"` (one per head).
        default (float): The value of :obj:`None`, and where learned ones
            start.
        heads (int): H.

    Raises:
        ValueError: If there are not one or H finite numbers > 0.
    """
    if beta is None or isinstance(beta, (str, float, int)):
        return PositiveScalar('beta', beta, default, heads)
    return _HeadValues(beta, heads)


class _HeadValues(Module):
    """A fixed positive number for every head."""

    values: Tensor

    def __init__(self, values: Union[Sequence[float], Tensor], heads: int):
        super().__init__()
        values = torch.as_tensor(values, dtype=torch.get_default_dtype())
        good = bool((values > 0).all()) and bool(values.isfinite().all())
        if values.shape != (heads,) or not good:
            raise ValueError(
                f"'beta' must be a finite number > 0 for each of the {heads} "
                f'heads (got {values.tolist()})'
            )
        values = values.detach().clone()
        self.register_buffer('values', values, persistent=False)

    def reset_parameters(self):
        r"""Nothing is learned."""

    def forward(self) -> Tensor:
        return self.values


class HopfieldProjection(Module):
    r"""The maps of a Hopfield layer: into the association space of every
    head, and from its values to the output.

    .. math::
        q = W_Q\, \mathrm{norm}(r), \qquad k = W_K\, \mathrm{norm}(y), \qquad
        v = W_V\, \mathrm{norm}(z), \qquad o = W_O\, \mathrm{concat}_h\, v_h

    Args:
        channels (tuple): Sizes of states r, stored patterns y and the inputs
            z of values.
        out_channels (int): Size of the output, if it is projected.
        heads (int): Number of heads H.
        hidden_channels (int, optional): Size of the association space, of
            all heads together. (default: H times the size of the states over
            H, one at least)
        value_channels (int, optional): Size of the values, of all heads
            together. (default: :obj:`hidden_channels`)
        beta (float, Sequence, Tensor or str, optional): Inverse temperature:
            a number, one per head, or :obj:`"learn"` (one per head).
            (default: :math:`1 / \sqrt{d}` of head size d)
        norms (tuple, optional): For states, stored patterns and values:
            whether a :class:`~torch.nn.LayerNorm` comes first, or a module
            to use instead. (default: all)
        norm_space (bool or Module, optional): A norm of states and stored
            patterns within the association space, shared by both.
            (default: :obj:`False`)
        maps (tuple, optional): For states, stored patterns and values:
            whether they are mapped. What is not mapped lives in the space of
            a head, and all heads share it. Values that are
            :obj:`"connected"` are maps of the mapped stored patterns.
            (default: all)
        map_out (bool, optional): Whether the concatenated values are mapped.
            (default: :obj:`True`)
        bias (bool, optional): Whether maps have a bias.
            (default: :obj:`True`)
    """

    def __init__(
        self,
        channels: Tuple[int, int, int],
        out_channels: int,
        heads: int = 1,
        hidden_channels: Optional[int] = None,
        value_channels: Optional[int] = None,
        beta: Beta = None,
        norms: Tuple[Union[bool, Module], ...] = (True, True, True),
        norm_space: Union[bool, Module] = False,
        maps: Tuple[Union[bool, str], ...] = (True, True, True),
        map_out: bool = True,
        bias: bool = True,
    ):
        super().__init__()
        if min(*channels, heads) < 1:
            raise ValueError(
                f'a Hopfield layer expects channels >= 1 and heads >= 1 '
                f'(got {channels} and {heads})'
            )
        self.channels = channels
        self.heads = heads
        self.maps = maps
        state, stored, value = channels
        self.head_channels = self._width(
            'hidden_channels', hidden_channels, [state, stored], maps[:2]
        )
        if value_channels is None and maps[2]:
            value_channels = self.head_channels * heads
        self.value_channels = self._width(
            'value_channels', value_channels, [value], maps[2:]
        )
        hidden = self.head_channels * heads
        values = self.value_channels * heads
        if maps[2] == 'connected':
            value = hidden
        self.norm_state = _norm(norms[0], state)
        self.norm_stored = _norm(norms[1], stored)
        connected = maps[2] == 'connected'
        self.norm_value = _norm(norms[2] and not connected, value)
        self.norm_space = _norm(norm_space, self.head_channels)
        self.lin_state = _linear(maps[0], state, hidden, bias)
        self.lin_stored = _linear(maps[1], stored, hidden, bias)
        self.lin_value = _linear(bool(maps[2]), value, values, bias)
        self.lin_out = _linear(map_out, values, out_channels, bias)
        self.out_channels = out_channels if map_out else values
        default = 1 / math.sqrt(self.head_channels)
        self.beta = make_beta(beta, default, heads)

    def reset_parameters(self):
        r"""Draws all maps anew, and resets norms and beta."""
        for module in self.children():
            if hasattr(module, 'reset_parameters'):
                module.reset_parameters()

    def states(self, x: Tensor) -> Tensor:
        r"""States in association space, :math:`[.., H, d]`."""
        x = x if self.norm_state is None else self.norm_state(x)
        return self._spaced(self._headed(self.lin_state, x))

    def stored(self, x: Tensor) -> Tensor:
        r"""Stored patterns in association space, :math:`[.., H, d]`."""
        x = x if self.norm_stored is None else self.norm_stored(x)
        return self._spaced(self._headed(self.lin_stored, x))

    def values(self, x: Tensor, stored: Tensor) -> Tensor:
        r"""Values, :math:`[.., H, P]`, of their inputs, or of the stored
        patterns in association space where they are connected.
        """
        if self.maps[2] == 'connected':
            return self._headed(self.lin_value, stored.flatten(-2))
        x = x if self.norm_value is None else self.norm_value(x)
        return self._headed(self.lin_value, x)

    def out(self, values: Tensor) -> Tensor:
        r"""Output :math:`[.., C]` of associated values
        :math:`[.., H, P]`.
        """
        values = values.flatten(-2)
        return values if self.lin_out is None else self.lin_out(values)

    def _headed(self, lin: Optional[Linear], x: Tensor) -> Tensor:
        if lin is None:
            return x.unsqueeze(-2).expand(*x.shape[:-1], self.heads, -1)
        return lin(x).unflatten(-1, (self.heads, -1))

    def _spaced(self, x: Tensor) -> Tensor:
        return x if self.norm_space is None else self.norm_space(x)

    def _width(
        self,
        name: str,
        total: Optional[int],
        sizes: Sequence[int],
        maps: Sequence[Union[bool, str]],
    ) -> int:
        """Size of a head, given that of all heads."""
        if total is None:
            fixed = [s for s, m in zip(sizes, maps, strict=True) if not m]
            head = fixed[0] if fixed else max(sizes[0] // self.heads, 1)
            total = head * self.heads
        if total < 1 or total % self.heads:
            raise ValueError(
                f"'{name}' is the size of all heads together, a multiple of "
                f'{self.heads} (got {total})'
            )
        head = total // self.heads
        for size, mapped in zip(sizes, maps, strict=True):
            if not mapped and size != head:
                raise ValueError(
                    f'patterns that are not mapped live in the space of a '
                    f"head, which '{name}' gives {head} channels (got {size})"
                )
        return head


def _norm(wanted: Union[bool, Module], channels: int) -> Optional[Module]:
    if isinstance(wanted, Module):
        return wanted
    return LayerNorm(channels) if wanted else None


def _linear(
    wanted: Union[bool, str], size: int, out: int, bias: bool
) -> Optional[Linear]:
    if not wanted:
        return None
    return Linear(
        size,
        out,
        bias=bias,
        weight_initializer='glorot',
        bias_initializer='zeros',
    )
