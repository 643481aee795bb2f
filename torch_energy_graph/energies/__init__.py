"""What is minimised: energies and their gradients, as pure functions."""

from .attention import (
    attention_energy,
    attention_energy_grad,
    lift_relations,
)
from .binary import (
    ClassicHopfield,
    DenseAssociativeMemory,
)
from .classifier import (
    free_energy,
    free_energy_grad,
)
from .dense_attention import (
    dense_attention_energy,
    dense_attention_energy_grad,
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
from .dirichlet import (
    dirichlet_energy,
    dirichlet_energy_grad,
)
from .hopfield import (
    HOPFIELD_ACTIVATIONS,
    hopfield_energy,
    hopfield_energy_grad,
)
from .metastable import (
    METASTABLE_KINDS,
    metastable_kind,
    patterns_in_use,
)
from .reduce import reduce_energy
from .retrieval import (
    hopfield_associate,
    hopfield_retrieve,
    retrieval_energy,
    retrieval_energy_grad,
)
from .retrieval_bounds import (
    binary_capacity,
    contraction_bound,
    pattern_separation,
    retrieval_error_bound,
    storage_capacity,
    well_separated,
)
from .separation import (
    SEPARATIONS,
    separate,
    separation_conjugate,
)
from .sets import set_pairs

__all__ = [
    'ClassicHopfield',
    'DIFFUSION_KERNELS',
    'DenseAssociativeMemory',
    'HOPFIELD_ACTIVATIONS',
    'METASTABLE_KINDS',
    'SEPARATIONS',
    'attention_energy',
    'attention_energy_grad',
    'binary_capacity',
    'contraction_bound',
    'dense_attention_energy',
    'dense_attention_energy_grad',
    'diffusion_change',
    'diffusion_energy',
    'diffusion_energy_grad',
    'diffusion_step',
    'diffusivity',
    'dirichlet_energy',
    'dirichlet_energy_grad',
    'free_energy',
    'free_energy_grad',
    'hopfield_associate',
    'hopfield_energy',
    'hopfield_energy_grad',
    'hopfield_retrieve',
    'lift_relations',
    'max_stable_tau',
    'metastable_kind',
    'pair_diffusivity',
    'pair_penalty',
    'pattern_separation',
    'patterns_in_use',
    'reduce_energy',
    'retrieval_energy',
    'retrieval_energy_grad',
    'retrieval_error_bound',
    'separate',
    'separation_conjugate',
    'set_pairs',
    'storage_capacity',
    'well_separated',
]
