"""A detector as files: safetensors and JSON, nothing that could be run.

The JSON names the file of weights and its SHA-256, see
:mod:`torch_energy_graph.train.checkpoint`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from torch_energy_graph import __version__
from torch_energy_graph.data import Preprocessing
from torch_energy_graph.detect.inputs import NodeInputs
from torch_energy_graph.detect.scorer import Scorer
from torch_energy_graph.detect.threshold import (
    target_from_dict,
    target_to_dict,
)
from torch_energy_graph.train import load_state, save_state

if TYPE_CHECKING:
    from torch import Tensor

    from torch_energy_graph.detect.detector import EnergyFraudDetector

__all__ = ['load_detector', 'save_detector']

T = TypeVar('T', bound='EnergyFraudDetector')
_FORMAT, _VERSION = 'torch_energy_graph.detector', 1
_DAMAGED = (
    AttributeError,
    IndexError,
    KeyError,
    RuntimeError,
    TypeError,
    ValueError,
)
_PLAIN = ('threshold_', 'validation_', 'history_', 'num_parts_')


def save_detector(
    detector: 'EnergyFraudDetector', scorer: Scorer, folder: Path
) -> None:
    """Write a fitted detector into a folder."""
    params = detector.get_params()
    params['threshold'] = target_to_dict(params['threshold'])
    preprocessing = detector.preprocessing_
    values = {
        'format': _FORMAT,
        'version': _VERSION,
        'package': __version__,
        'params': params,
        'fitted': {name: getattr(detector, name) for name in _PLAIN},
        'scorer': scorer.state(),
        'preprocessing': preprocessing and preprocessing.to_dict(),
    }
    save_state(folder, scorer.tensors(), values)


def load_detector(cls: type[T], folder: Path, device: str | None) -> T:
    """Read a detector from a folder."""
    state = load_state(folder)
    if state is None:
        raise FileNotFoundError(
            f"there is no detector in '{folder}'; write one with "
            f"EnergyFraudDetector.save('{folder}')"
        )
    tensors, values = state
    try:
        return _restored(cls, tensors, values, device)
    except _DAMAGED as error:
        raise ValueError(
            f"'{folder}' holds no detector of this version "
            f'({type(error).__name__}: {error}); save it again'
        ) from error


def _restored(
    cls: type[T],
    tensors: 'Mapping[str, Tensor]',
    values: Mapping[str, Any],
    device: str | None,
) -> T:
    if values['format'] != _FORMAT or values['version'] != _VERSION:
        raise ValueError(
            f'it is {values["format"]} {values["version"]}, expected '
            f'{_FORMAT} {_VERSION}'
        )
    params = dict(values['params'])
    params['threshold'] = target_from_dict(params['threshold'])
    if device is not None:
        params['device'] = device
    detector = cls(**params)
    inputs = NodeInputs(detector.hops, detector.encoding, detector.bins)
    detector.scorer_ = Scorer.restore(
        values['scorer'], tensors, inputs, detector.device
    )
    stored = values['preprocessing']
    detector.preprocessing_ = stored and Preprocessing.from_dict(stored)
    detector.classes_ = np.array([0, 1])
    detector.n_features_in_ = detector.scorer_.num_features
    for name in _PLAIN:
        setattr(detector, name, values['fitted'][name])
    return detector
