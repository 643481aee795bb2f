import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter

from torch_energy_graph.nn.positive import inverse_softplus

__all__ = ['EnergyLayerNorm']


class EnergyLayerNorm(torch.nn.Module):
    r"""The layer normalisation of the Energy Transformer, from the
    `"Energy Transformer" <https://arxiv.org/abs/2302.07253>`_ paper (eq. 1,
    2): the gradient of a Lagrangian.

    .. math::
        g_i = \gamma\, \frac{x_i - \bar x}{\sigma} + \delta_i, \qquad
        \sigma = \sqrt{\tfrac{1}{C} \sum_j (x_j - \bar x)^2 + \epsilon}

    .. math::
        L(x) = C \gamma \sigma + \sum_j \delta_j x_j, \qquad
        g = \frac{\partial L}{\partial x}

    Unlike :class:`torch.nn.LayerNorm`, :math:`\gamma` is one positive
    number: only then is the Jacobian :math:`\partial g / \partial x`
    symmetric and positive semi-definite, on which every descent guarantee
    rests. It is kept positive by a softplus. Half types are normalised in
    float32.

    Args:
        channels (int): Number of channels C.
        eps (float, optional): :math:`\epsilon > 0`.
            (default: :obj:`1e-5`)
        bias (bool, optional): If set to :obj:`False`, :math:`\delta = 0`.
            (default: :obj:`True`)

    Shapes:
        - **input:** states :math:`(*, C)`
        - **output:** activations :math:`(*, C)`

    Example:
        >>> norm = EnergyLayerNorm(4)
        >>> norm(torch.tensor([[0.0, 0.0, 2.0, 2.0]])).round(decimals=3)
        tensor([[-1., -1.,  1.,  1.]], grad_fn=<RoundBackward1>)
    """

    def __init__(self, channels: int, eps: float = 1e-5, bias: bool = True):
        super().__init__()
        if channels < 1:
            raise ValueError(
                f"'EnergyLayerNorm' expects channels >= 1 (got {channels})"
            )
        if not eps > 0:
            raise ValueError(f"'EnergyLayerNorm' expects eps > 0 (got {eps})")
        self.channels = channels
        self.eps = eps
        self.weight = Parameter(torch.empty(()))
        if bias:
            self.bias = Parameter(torch.empty(channels))
        else:
            self.register_parameter('bias', None)
        self.reset_parameters()

    def reset_parameters(self):
        r"""Resets :math:`\gamma` to one and :math:`\delta` to zero."""
        torch.nn.init.constant_(self.weight, inverse_softplus(1.0))
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    @property
    def gamma(self) -> Tensor:
        r"""The slope :math:`\gamma > 0`, float32 at least."""
        return F.softplus(_widen(self.weight))

    def forward(self, x: Tensor) -> Tensor:
        """Normalises the last dimension."""
        self._check(x)
        g = F.layer_norm(_widen(x), (self.channels,), eps=self.eps)
        g = self.gamma * g
        if self.bias is not None:
            g = g + self.bias
        return g.to(x.dtype)

    def sigma(self, x: Tensor) -> Tensor:
        r"""Standard deviation :math:`\sigma`, of shape :math:`(*)`."""
        self._check(x)
        x = _widen(x)
        variance = (x - x.mean(-1, keepdim=True)).square().mean(-1)
        return (variance + self.eps).sqrt()

    def lagrangian(self, x: Tensor) -> Tensor:
        r"""The Lagrangian L(x), of shape :math:`(*)`; its gradient is
        :meth:`forward`.
        """
        out = self.channels * self.gamma * self.sigma(x)
        if self.bias is not None:
            out = out + (self.bias * _widen(x)).sum(-1)
        return out

    def _check(self, x: Tensor) -> None:
        if x.size(-1) != self.channels:
            raise ValueError(
                f"'EnergyLayerNorm' expects {self.channels} channels "
                f'(got input of shape {list(x.shape)})'
            )

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.channels}, eps={self.eps}, '
            f'bias={self.bias is not None})'
        )


def _widen(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
