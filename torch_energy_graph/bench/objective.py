"""Losses of node classifiers beside the cross-entropy, by name."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.bench.coerce import ConfigError
from torch_energy_graph.ood import NGEBMLoss
from torch_energy_graph.train import Objective

__all__ = ['LossConfig', 'objective_of']


@dataclass(frozen=True)
class LossConfig:
    """What a training minimises.

    Args:
        name (str): 'ngebm',
            :class:`~torch_energy_graph.ood.NGEBMLoss` with the gradient at
            the features.
        beta (float): Weight of the gradient term, in [0, 1); choose it on
            validation nodes, there is no value for all graphs.
        variance (float, optional): Weight of the variance of the energies.
            (default: :obj:`0.0`)
    """

    name: Literal['ngebm']
    beta: float
    variance: float = 0.0

    def __post_init__(self) -> None:
        try:
            NGEBMLoss(self.beta, self.variance)
        except ValueError as error:
            raise ConfigError(f"'loss': {error}") from None


def objective_of(config: LossConfig) -> Objective:
    """Return the loss as a trainer calls it."""
    loss = NGEBMLoss(config.beta, config.variance)

    def objective(
        logits: Callable[[Data], Tensor], part: Data, mask: Tensor, y: Tensor
    ) -> Tensor:
        def model(x: Tensor) -> Tensor:
            moved = copy.copy(part)
            moved.x = x
            return logits(moved)

        function: Any = model  # hooks of a module are not used here
        return loss.evaluate(function, y, part.x, mask=mask)

    return objective
