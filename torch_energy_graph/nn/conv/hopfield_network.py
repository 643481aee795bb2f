import math
from typing import Optional, Union

import torch
from torch import Tensor
from torch.nn import Parameter

from torch_geometric.nn.inits import glorot

from torch_energy_graph.energies import (
    HOPFIELD_ACTIVATIONS,
    hopfield_energy,
    hopfield_energy_grad,
    reduce_energy,
)
from torch_energy_graph.nn.positive import PositiveScalar

__all__ = ['HopfieldNetwork']


class HopfieldNetwork(torch.nn.Module):
    r"""The memory block of the Energy Transformer, from the
    `"Energy Transformer" <https://arxiv.org/abs/2302.07253>`_ paper (eq. 5,
    9): every node is pulled towards the stored memories it overlaps with.

    .. math::
        E(g) = -\sum_i G(\xi g_i), \qquad
        -\frac{\partial E}{\partial g_i} = \xi^\top r(\xi g_i),
        \quad r = \nabla G

    G is convex for every activation, so E is concave and its descent is
    certified for any step size; see
    :func:`~torch_energy_graph.energies.hopfield_energy`.

    Args:
        channels (int): Number of channels C.
        num_memories (int, optional): Number of memories K.
            (default: four times the channels)
        activation (str, optional): :obj:`"relu"`, :obj:`"softmax"` or
            :obj:`"power"` (:math:`\mathrm{relu}(h)^n / n`).
            (default: :obj:`"relu"`)
        beta (float or str, optional): Inverse temperature of
            :obj:`"softmax"`, a number or :obj:`"learn"`.
            (default: :math:`1 / \sqrt{C}`)
        power (float, optional): n >= 2 of :obj:`"power"`.
            (default: :obj:`3.0`)

    Shapes:
        - **input:** activations :math:`(N, C)`
        - **output:** :math:`-\partial E / \partial g`, :math:`(N, C)`
    """

    energy_contract = 'exact'

    def __init__(
        self,
        channels: int,
        num_memories: Optional[int] = None,
        activation: str = 'relu',
        beta: Union[float, str, None] = None,
        power: float = 3.0,
    ):
        super().__init__()
        if num_memories is None:
            num_memories = 4 * channels
        if channels < 1 or num_memories < 1:
            raise ValueError(
                f"'HopfieldNetwork' expects channels >= 1 and "
                f'num_memories >= 1 (got {channels} and {num_memories})'
            )
        if activation not in HOPFIELD_ACTIVATIONS:
            raise ValueError(
                f"'HopfieldNetwork' expects activation to be one of "
                f'{list(HOPFIELD_ACTIVATIONS)} (got {activation!r})'
            )
        if power < 2:
            raise ValueError(
                f"'HopfieldNetwork' expects power >= 2 (got {power}): below, "
                f'the gradient of the update is unbounded'
            )
        self.channels = channels
        self.num_memories = num_memories
        self.activation = activation
        self.power = power
        self.beta = PositiveScalar('beta', beta, 1 / math.sqrt(channels))
        self.memories = Parameter(torch.empty(num_memories, channels))
        self.reset_parameters()

    def reset_parameters(self):
        r"""Draws new memories."""
        glorot(self.memories)
        self.beta.reset_parameters()

    def forward(self, g: Tensor) -> Tensor:
        r"""Pull of the memories, :math:`-\partial E/\partial g`."""
        return -hopfield_energy_grad(g, *self._arguments(g))

    def energy(
        self,
        g: Tensor,
        batch: Optional[Tensor] = None,
        batch_size: Optional[int] = None,
        reduction: str = 'graph',
    ) -> Tensor:
        r"""The energy of activations.

        Args:
            g (Tensor): Activations :math:`[N, C]`.
            batch (LongTensor, optional): Graph of every node, :math:`[N]`.
            batch_size (int, optional): Number of graphs.
            reduction (str, optional): :obj:`"graph"` or :obj:`"node"`.

        Returns:
            Tensor: A scalar, :math:`[B]` with :obj:`batch`, or :math:`[N]`
            for :obj:`"node"`.
        """
        energy = hopfield_energy(g, *self._arguments(g))
        return reduce_energy(energy, batch, batch_size, reduction)

    def _arguments(self, g: Tensor):
        if g.size(-1) != self.channels:
            raise ValueError(
                f"'{self.__class__.__name__}' expects activations of shape "
                f'[N, {self.channels}] (got {list(g.shape)})'
            )
        return self.memories, self.activation, self.beta(), self.power

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.channels}, '
            f'num_memories={self.num_memories}, '
            f'activation={self.activation!r})'
        )
