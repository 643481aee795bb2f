"""Encodings of numbers by name, and their fitted state as plain numbers."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from torch_energy_graph.transforms.encoder import FeatureEncoder
from torch_energy_graph.transforms.piecewise_linear import (
    PiecewiseLinearEncoding,
)
from torch_energy_graph.transforms.scaling import (
    QuantileNormalize,
    Standardize,
)

__all__ = [
    'Encoding',
    'check_encoding',
    'encoders_from',
    'encoders_state',
    'learned',
]

Encoding = Literal['raw', 'standard', 'normal', 'piecewise']
Floats = NDArray[np.float64]


def check_encoding(encoding: str) -> None:
    """ValueError if there is no such encoding."""
    if encoding not in get_args(Encoding):
        raise ValueError(
            f"expected 'encoding' as one of {', '.join(get_args(Encoding))} "
            f'(got {encoding!r})'
        )


def learned(encoding: Encoding, x: Floats) -> list[FeatureEncoder]:
    """Encoders that were fitted, one on the output of the other."""
    encoders: list[FeatureEncoder] = {
        'raw': list,
        'standard': lambda: [Standardize()],
        'normal': lambda: [QuantileNormalize()],
        'piecewise': lambda: [PiecewiseLinearEncoding(), Standardize()],
    }[encoding]()
    for encoder in encoders:
        encoder.learn(x)
        x = encoder.encode(x)
    return encoders


def encoders_state(encoders: list[FeatureEncoder]) -> list[dict[str, Any]]:
    """What the encoders have learned, ready for JSON, to the last bit."""
    return [_state(encoder) for encoder in encoders]


def encoders_from(
    states: list[Mapping[str, Any]], width: int
) -> list[FeatureEncoder]:
    """Encoders of ``width`` columns from :func:`encoders_state`."""
    encoders = []
    for state in states:
        encoder = _encoder(state)
        width = encoder.encode(np.zeros((1, width))).shape[1]
        encoders.append(encoder)
    return encoders


def _state(encoder: FeatureEncoder) -> dict[str, Any]:
    if isinstance(encoder, Standardize):
        scaler = encoder.scaler_
        values = {'mean': scaler.mean_, 'scale': scaler.scale_}
    elif isinstance(encoder, QuantileNormalize):
        ranks = encoder.ranks_
        values = {'quantiles': ranks.quantiles_, 'levels': ranks.references_}
    elif isinstance(encoder, PiecewiseLinearEncoding):
        # all edges of a column that varies are finite
        edges = [edge.tolist() for edge in encoder.edges_]
        return {'encoder': 'piecewise', 'edges': edges}
    else:
        raise TypeError(f"'{type(encoder).__name__}' cannot be saved")
    name = 'standard' if 'mean' in values else 'normal'
    return {'encoder': name, **{k: v.tolist() for k, v in values.items()}}


def _encoder(state: Mapping[str, Any]) -> FeatureEncoder:
    name = state['encoder']
    if name == 'standard':
        standardize = Standardize()
        standardize.scaler_ = _scaler(state['mean'], state['scale'])
        return standardize
    if name == 'normal':
        ranked = QuantileNormalize()
        ranked.ranks_ = _ranks(state['quantiles'], state['levels'])
        return ranked
    if name == 'piecewise':
        piecewise = PiecewiseLinearEncoding()
        piecewise.edges_ = [
            np.array(edge, dtype=np.float64) for edge in state['edges']
        ]
        return piecewise
    raise ValueError(f'there is no encoder {name!r}')


def _scaler(mean: list[float], scale: list[float]) -> StandardScaler:
    scaler = StandardScaler()
    scaler.mean_ = np.array(mean, dtype=np.float64)
    scaler.scale_ = np.array(scale, dtype=np.float64)
    scaler.var_ = scaler.scale_**2
    scaler.n_features_in_ = len(mean)
    return scaler


def _ranks(
    quantiles: list[list[float]], levels: list[float]
) -> QuantileTransformer:
    ranks = QuantileTransformer(
        n_quantiles=len(levels), output_distribution='normal', subsample=None
    )
    ranks.quantiles_ = np.array(quantiles, dtype=np.float64)
    ranks.references_ = np.array(levels, dtype=np.float64)
    ranks.n_quantiles_ = len(levels)
    ranks.n_features_in_ = ranks.quantiles_.shape[1]
    return ranks
