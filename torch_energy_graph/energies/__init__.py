"""What is minimised: energies and their gradients, as pure functions."""

from .attention import (
    attention_energy,
    attention_energy_grad,
    lift_relations,
)
from .hopfield import (
    HOPFIELD_ACTIVATIONS,
    hopfield_energy,
    hopfield_energy_grad,
)
from .reduce import reduce_energy

__all__ = [
    'HOPFIELD_ACTIVATIONS',
    'attention_energy',
    'attention_energy_grad',
    'hopfield_energy',
    'hopfield_energy_grad',
    'lift_relations',
    'reduce_energy',
]
