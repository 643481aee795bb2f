from typing import NamedTuple, Optional, Protocol, Union

import torch
from torch import Tensor

from torch_geometric.typing import OptTensor

from torch_energy_graph.energies.retrieval import retrieval_energy
from torch_energy_graph.energies.separation import SEPARATIONS, separate

__all__ = [
    'Association',
    'DenseAssociation',
    'check_retrieval',
    'retrieve',
]


class Association(Protocol):
    r"""States, and the patterns each of them associates with.

    This is what the ``association`` method of a layer with
    :obj:`energy_contract = 'retrieval'` returns: its :meth:`step` minimises
    the majoriser of its :meth:`energy` in closed form, which for
    :obj:`separation="softmax"` is :math:`\xi - \partial E / \partial \xi`.
    """

    @property
    def state(self) -> Tensor:
        """Where the retrieval starts."""

    def weights(self, state: Tensor) -> Tensor:
        """Association weights of states with their patterns."""

    def step(self, state: Tensor) -> Tensor:
        """States after one update, of the shape of the states."""

    def energy(self, state: Tensor) -> Tensor:
        """Energy of every state, of the shape of the states without d."""


class DenseAssociation(NamedTuple):
    r"""States and patterns along axes of their own.

    Args:
        state (Tensor): Initial states :math:`[*, H, S, d]`.
        stored (Tensor): Patterns :math:`[*, H, N, d]`.
        beta (float or Tensor): Inverse temperature, one for all or
            :math:`[H]`.
        separation (str): Name of the separation function.
        bias (Tensor, optional): Added to the scores, of a shape that fits
            :math:`[*, H, S, N]`; :math:`-\infty` forbids a pattern.
    """

    state: Tensor
    stored: Tensor
    beta: Union[float, Tensor]
    separation: str = 'softmax'
    bias: OptTensor = None

    def weights(self, state: Tensor) -> Tensor:
        r"""Association weights :math:`[*, H, S, N]`, float32 at least."""
        beta = self.beta
        if isinstance(beta, Tensor):
            beta = beta.to(state.dtype).view(-1, 1, 1)
        scores = (beta * state) @ self.stored.mT
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if self.bias is not None:
            scores = scores + self.bias
        return separate(scores, self.separation)

    def step(self, state: Tensor) -> Tensor:
        r"""States after one update, :math:`[*, H, S, d]`."""
        return self.read(self.weights(state), self.stored)

    def read(self, weights: Tensor, values: Tensor) -> Tensor:
        r"""Associated values, :math:`[*, H, S, P]`."""
        return weights.to(values.dtype) @ values

    def energy(self, state: Tensor) -> Tensor:
        r"""Energy of every state, :math:`[*, H, S]`."""
        beta = self.beta
        if isinstance(beta, Tensor):
            beta = beta.unsqueeze(-1)
        return retrieval_energy(
            state, self.stored, beta, self.separation, bias=self.bias
        )


def check_retrieval(
    layer: str, steps: int, tol: Optional[float], separation: str
) -> None:
    """Raises a ValueError where the options of a retrieval make no sense."""
    if separation not in SEPARATIONS:
        raise ValueError(
            f"'{layer}' expects separation to be one of {list(SEPARATIONS)} "
            f'(got {separation!r})'
        )
    if steps < 1:
        raise ValueError(
            f"'{layer}' expects steps >= 1: the last one reads the values "
            f'(got {steps})'
        )
    if tol is not None and (tol <= 0 or steps < 2):
        raise ValueError(
            f"'{layer}' stops updates whose change is at most tol > 0, and "
            f'there are steps - 1 of them (got tol={tol}, steps={steps}); '
            f'give more steps'
        )


def retrieve(
    association: Association, steps: int, tol: Optional[float] = None
) -> Tensor:
    r"""Updates states until they stay, each for itself.

    Args:
        association (Association): Where to start, and one update.
        steps (int): Largest number of updates.
        tol (float, optional): A state is final once an update moved it by at
            most this distance, whatever the others do.
            (default: :obj:`None`, all updates)

    Returns:
        Tensor: States of the shape of an update.
    """
    state, moving = association.state, None
    for _ in range(steps):
        new = association.step(state)
        if tol is not None:
            change = (new - state).detach().norm(dim=-1, keepdim=True)
            if moving is not None:
                new = torch.where(moving, new, state)
                change = change * moving
            moving = change > tol
        state = new
        if moving is None or torch.compiler.is_compiling():
            continue
        if not moving.any():
            break
    return state
