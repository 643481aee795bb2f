from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric.typing import OptTensor

from torch_energy_graph.dynamics import descend
from torch_energy_graph.nn.grid import patches_to_image
from torch_energy_graph.nn.models.image_energy_transformer import (
    ImageEnergyTransformer,
)
from torch_energy_graph.nn.norm import EnergyLayerNorm

__all__ = ['ImageDescent', 'record_descent']


@dataclass(frozen=True)
class ImageDescent:
    r"""What attention and memories did in every step of a descent.

    The states obey :math:`x^{t+1} = x^t + a^t + m^t`: a step is the sum of
    what attention (a) and memories (m) pull, each times the step size.

    Args:
        states (Tensor): :math:`x^0` to :math:`x^T`, :math:`[T + 1, B, N, C]`.
        attention (Tensor): Updates a, :math:`[T, B, N, C]`.
        memories (Tensor): Updates m, :math:`[T, B, N, C]`.
        attention_energy (Tensor): :math:`[T + 1, B]`.
        memory_energy (Tensor): :math:`[T + 1, B]`.
    """

    states: Tensor
    attention: Tensor
    memories: Tensor
    attention_energy: Tensor
    memory_energy: Tensor

    def shares(self, mask: OptTensor = None) -> Tensor:
        r"""Share of the attention in the updates of every step,
        :math:`\lVert a^t \rVert / (\lVert a^t \rVert + \lVert m^t \rVert)`;
        that of the memories is the rest.

        Norms run over the channels of a token and are summed over tokens.

        Args:
            mask (Tensor, optional): Tokens that count, bool :math:`[B, N]`.
                (default: all)

        Returns:
            Tensor: :math:`[T]`; 0.5 where nothing moves.
        """
        attention = self._size(self.attention, mask)
        memories = self._size(self.memories, mask)
        total = attention + memories
        share = attention / total.clamp(min=torch.finfo(total.dtype).tiny)
        return torch.where(total > 0, share, 0.5)

    def step_norms(self, mask: OptTensor = None) -> Tuple[Tensor, Tensor]:
        r"""Mean norm of the updates of a token by attention and by memories,
        each :math:`[T]`.

        Args:
            mask (Tensor, optional): Tokens that count, bool :math:`[B, N]`.
        """
        if mask is None:
            count = self.attention[0, ..., 0].numel()
        else:
            count = int(mask.sum())
        count = max(count, 1)
        return (
            self._size(self.attention, mask) / count,
            self._size(self.memories, mask) / count,
        )

    def images(self, model: ImageEnergyTransformer) -> Tensor:
        r"""The images that the states stand for,
        :math:`[T + 1, B, c, H, W]`.

        Args:
            model (ImageEnergyTransformer): The model that was recorded.
        """
        with torch.no_grad():
            return torch.stack([model.decode(x) for x in self.states])

    def contributions(
        self, model: ImageEnergyTransformer
    ) -> Tuple[Tensor, Tensor]:
        r"""What attention and memories change in the image, to first order.

        The decoder's Jacobian at :math:`x^t` times the updates: the two add
        up to the change of the image in a step, but for terms of second
        order.

        Args:
            model (ImageEnergyTransformer): The model that was recorded.

        Returns:
            (Tensor, Tensor): Each :math:`[T, B, c, H, W]`.
        """
        decode, norm = model.decoder, model.block.norm

        def decoded(updates: Tensor) -> Tensor:
            change = _norm_change(norm, self.states[:-1], updates)
            if model.cls is not None:
                change = change[:, :, 1:]
            patches = F.linear(change, decode.weight)  # [T, B, R S, P]
            images = patches_to_image(
                patches.flatten(0, 1), model.image_size, model.patch_size
            )
            return images.view(*updates.shape[:2], *images.shape[1:]).detach()

        return decoded(self.attention), decoded(self.memories)

    @staticmethod
    def _size(updates: Tensor, mask: OptTensor) -> Tensor:
        norms = updates.norm(dim=-1)  # [T, B, N]
        if mask is not None:
            norms = norms * mask
        return norms.sum((1, 2))


@torch.no_grad()
def record_descent(
    model: ImageEnergyTransformer,
    images: Tensor,
    mask: OptTensor = None,
    clamp: Optional[bool] = None,
    num_steps: Optional[int] = None,
) -> ImageDescent:
    r"""Records the descent that :meth:`ImageEnergyTransformer.complete` runs.

    Args:
        model (ImageEnergyTransformer): A model; its noise is not added.
        images (Tensor): :math:`[B, c, H, W]`.
        mask (Tensor, optional): Hidden patches, bool :math:`[B, R S]` or
            :math:`[R S]`.
        clamp (bool, optional): Stands in for the model's :obj:`clamp`.
        num_steps (int, optional): Number of steps, which may be more than
            the model was trained for. (default: the model's T)
    """
    x = model.encode(images, mask)  # [B, N, C]
    shape, x = x.shape, x.flatten(0, 1)
    dynamics = model.dynamics(len(images), mask, clamp)
    block, tokens = dynamics.block, dynamics.tokens
    pulls: List[Tuple[Tensor, Tensor]] = []

    def field(g: Tensor) -> Tensor:
        pulls.append((tokens.descent(g), block.memory(g)))
        return pulls[-1][0] + pulls[-1][1]

    states, attention, memories = [x], [], []
    steps = block.num_steps if num_steps is None else num_steps
    for _ in range(steps):
        x, trace = descend(
            x,
            block.norm,
            field,
            1,
            dynamics.step_rule(x),
            energy=tokens.energy,
        )
        assert trace is not None
        alpha = trace.step_size[0]  # [], or [B N]
        alpha = alpha.unsqueeze(-1) if alpha.dim() else alpha
        states.append(x)
        attention.append(alpha * pulls[-1][0])
        memories.append(alpha * pulls[-1][1])
    energies = [_energies(dynamics, state, shape) for state in states]
    none = x.new_empty(0, *shape)
    return ImageDescent(
        torch.stack(states).view(-1, *shape),
        torch.stack(attention).view(-1, *shape) if attention else none,
        torch.stack(memories).view(-1, *shape) if memories else none,
        *map(torch.stack, zip(*energies, strict=True)),
    )


def _norm_change(norm: EnergyLayerNorm, x: Tensor, change: Tensor) -> Tensor:
    r"""Jacobian of the energy norm at x times a change of x,
    :math:`\frac{\gamma}{\sigma} (I - \frac{1}{C} 1 1^\top -
    \frac{u u^\top}{C \sigma^2})` with :math:`u = x - \bar x`.
    """
    u = x - x.mean(-1, keepdim=True)
    sigma = norm.sigma(x).unsqueeze(-1)
    along = (u * change).mean(-1, keepdim=True) / sigma.square()
    change = change - change.mean(-1, keepdim=True) - along * u
    return norm.gamma / sigma * change


def _energies(dynamics, x: Tensor, shape) -> Tuple[Tensor, Tensor]:
    """Energy of attention and of memories, [B] each."""
    g = dynamics.block.norm(x)
    attention = dynamics.tokens.energy(g)
    memories = dynamics.block.memory.energy(g, reduction='node')
    return tuple(e.view(shape[:2]).sum(1) for e in (attention, memories))
