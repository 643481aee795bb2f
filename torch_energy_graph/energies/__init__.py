"""What is minimised: energies and their gradients, as pure functions."""

from .attention import (
    attention_energy,
    attention_energy_grad,
    lift_relations,
)
from .diffusion import (
    diffusion_change,
    diffusion_energy,
    diffusion_energy_grad,
    diffusion_step,
    max_stable_tau,
)
from .diffusivity import (
    DIFFUSION_KERNELS,
    diffusivity,
    pair_diffusivity,
    pair_penalty,
)
from .dirichlet import dirichlet_energy, dirichlet_energy_grad
from .hopfield import (
    HOPFIELD_ACTIVATIONS,
    hopfield_energy,
    hopfield_energy_grad,
)
from .reduce import reduce_energy

__all__ = [
    'DIFFUSION_KERNELS',
    'HOPFIELD_ACTIVATIONS',
    'attention_energy',
    'attention_energy_grad',
    'diffusion_change',
    'diffusion_energy',
    'diffusion_energy_grad',
    'diffusion_step',
    'diffusivity',
    'dirichlet_energy',
    'dirichlet_energy_grad',
    'hopfield_energy',
    'hopfield_energy_grad',
    'lift_relations',
    'max_stable_tau',
    'pair_diffusivity',
    'pair_penalty',
    'reduce_energy',
]
