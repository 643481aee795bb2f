"""State dicts of the `hflayers` package, for the layers here."""

from typing import Any, Dict, Mapping

from torch import Tensor
from torch.nn import Module

from torch_energy_graph.nn.attention.hopfield_projection import (
    HopfieldProjection,
)

__all__ = ['load_hflayers_state_dict']

_CORE = 'association_core.'
_NORMS = {
    'norm_state_pattern': 'norm_state',
    'norm_stored_pattern': 'norm_stored',
    'norm_pattern_projection': 'norm_value',
}
_PATTERNS = {
    'pooling_weights': 'states',
    'lookup_weights': 'memories',
    'target_weights': 'targets',
}
# learned, but without any effect there
_UNUSED = ('bias_k', 'bias_v')


def load_hflayers_state_dict(
    layer: Any, state_dict: Mapping[str, Tensor]
) -> None:
    r"""Loads the weights of a layer of ``hflayers`` 1.0.2 into one of ours.

    =================== ============================
    hflayers            here
    =================== ============================
    ``Hopfield``        :class:`.Hopfield`
    ``HopfieldPooling`` :class:`.HopfieldAggregation`
    ``HopfieldLayer``   :class:`.HopfieldMemory`
    =================== ============================

    Build ours with the options that the table of :class:`.Hopfield` gives:
    sizes of the association space count all heads here, and :obj:`steps` is
    ``update_steps_max + 1``. Learned bias patterns are left out, since they
    have no effect there.

    Args:
        layer (Module): The layer to load into.
        state_dict (dict): Tensors by the names of ``hflayers``.

    Raises:
        ValueError: If a weight of the layer is missing in the state dict,
            has another shape, or is unknown here.
    """
    maps = layer.maps
    given = {
        key.removeprefix('hopfield.').removeprefix(_CORE): value
        for key, value in state_dict.items()
    }
    given = {k: v for k, v in given.items() if k not in _UNUSED}
    found: Dict[str, Tensor] = {}
    for theirs, ours in _PATTERNS.items():
        if theirs in given:
            found[ours] = given.pop(theirs).squeeze(0)
    for theirs, ours in _NORMS.items():
        for name in ('weight', 'bias'):
            if f'{theirs}.{name}' in given:
                found[f'maps.{ours}.{name}'] = given.pop(f'{theirs}.{name}')
    for name in ('weight', 'bias'):
        if f'out_proj.{name}' in given:
            found[f'maps.lin_out.{name}'] = given.pop(f'out_proj.{name}')
    found |= _input_maps(maps, given)
    _check(layer, found, given)
    layer.load_state_dict(found, strict=False)


def _input_maps(
    maps: HopfieldProjection, given: Dict[str, Tensor]
) -> Dict[str, Tensor]:
    """Takes the maps of states, stored patterns and values out."""
    all_maps = {
        'lin_state': maps.lin_state,
        'lin_stored': maps.lin_stored,
        'lin_value': maps.lin_value,
    }
    lins = {name: lin for name, lin in all_maps.items() if lin is not None}
    sizes = [lin.out_channels for lin in lins.values()]
    found: Dict[str, Tensor] = {}
    for kind in ('weight', 'bias'):
        packed = given.pop(f'in_proj_{kind}', None)
        if packed is None:
            continue
        if packed.size(0) != sum(sizes):
            raise ValueError(
                f"'in_proj_{kind}' has {packed.size(0)} rows, but the layer "
                f'maps to {sizes} channels; hidden_channels and '
                f'value_channels count all heads together'
            )
        parts = packed.split(sizes)
        names = [f'maps.{name}.{kind}' for name in lins]
        found.update(zip(names, parts, strict=True))
    for letter, name in zip('qkv', ('state', 'stored', 'value'), strict=True):
        weight = given.pop(f'{letter}_proj_weight', None)
        if weight is not None:
            found[f'maps.lin_{name}.weight'] = weight
    return found


def _check(
    layer: Module, found: Dict[str, Tensor], rest: Dict[str, Tensor]
) -> None:
    own = layer.state_dict()
    wrong = [
        f'{key} {list(value.shape)}'
        for key, value in found.items()
        if key in own and value.shape != own[key].shape
    ]
    unknown = [*rest, *(key for key in found if key not in own)]
    missing = [key for key in own if key not in found]
    missing = [key for key in missing if not key.startswith('maps.beta')]
    if wrong or unknown or missing:
        raise ValueError(
            f'the state dict does not fit {layer}: missing {missing}, '
            f'unknown {unknown}, of another shape {wrong}; see the options in '
            f"the table of 'Hopfield'"
        )
