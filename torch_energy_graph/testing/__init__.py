"""Contract checks for energy layers, and the graphs they run on.

:func:`check_energy` asks whether a layer is the exact gradient of its energy;
:func:`check_conv` asks whether it fits wherever a PyG layer fits. Both are
made for layers of your own, too.
"""

from .conv import check_conv, conv_checks
from .energy import check_energy
from .errors import ContractError
from .graphs import (
    disjoint_union,
    hub_graph,
    in_star,
    out_star,
    random_graph,
    standard_graphs,
)

__all__ = [
    'ContractError',
    'check_conv',
    'check_energy',
    'conv_checks',
    'disjoint_union',
    'hub_graph',
    'in_star',
    'out_star',
    'random_graph',
    'standard_graphs',
]
