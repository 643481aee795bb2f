"""What the scores of a trained classifier tell: ``teg evaluate``."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.bench.coerce import ConfigError, coerce
from torch_energy_graph.bench.training import TrainConfig, Training
from torch_energy_graph.energies.classifier import free_energy
from torch_energy_graph.metrics import (
    brier_score,
    confidence_gap,
    negative_log_likelihood,
    ood_metrics,
    top_label_calibration_error,
)
from torch_energy_graph.ood import (
    EnergyPropagation,
    FeatureShift,
    StructureShift,
    fit_temperature,
)
from torch_energy_graph.train import load_tensors

__all__ = ['SHIFTS', 'Shift', 'evaluate_training']

Shift = Literal['structure', 'feature', 'label']
SHIFTS: tuple[Shift, ...] = ('structure', 'feature', 'label')


@torch.no_grad()
def evaluate_training(
    folder: Path, shifts: Sequence[Shift] = (), seed: int = 0
) -> dict[str, Any]:
    """Calibration of a finished training, and AUROC under shifts.

    Args:
        folder (Path): Folder of ``teg train``.
        shifts (sequence of str, optional): 'structure' and 'feature' rank
            test nodes against all nodes of a shifted graph, 'label' against
            the nodes of the classes in ``leave_out``. (default: :obj:`()`)
        seed (int, optional): Seed of the shifted graphs. (default: :obj:`0`)

    Returns:
        dict: Under 'test' measures of the test nodes; under 'scaled' the same
        with a temperature that was fitted on validation nodes; under 'ood',
        by shift and score, AUROC, AUPR and FPR95.

    Raises:
        ConfigError: If the folder holds no finished training, or one without
            the classes that a shift needs.
    """
    training = _load(folder)
    split, config = training.split, training.config
    if 'label' in shifts and not config.leave_out:
        raise ConfigError(
            f"'{folder}' was trained on all classes; for the shift 'label' "
            f"train with some left out: teg train ... --set 'leave_out=[0, 1]'"
        )
    data = training.network.prepare(training.data, split, training.params)
    logits = _logits(training, data)
    y, test = training.data.y, split.test
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter('always')
        temperature = fit_temperature(logits[split.val], y[split.val])
        known = _scores(logits, data, y)
    result: dict[str, Any] = {
        'dataset': config.dataset,
        'model': config.model,
        'test': _measures(logits[test], y[test]),
        'temperature': temperature,
        'scaled': _measures(logits[test] / temperature, y[test]),
        'notes': [str(note.message) for note in notes],
        'ood': {},
    }
    for shift in dict.fromkeys(shifts):
        strange, nodes = known, torch.ones_like(test)
        if shift == 'label':
            nodes = training.data.ood_mask
        else:
            change: Any = FeatureShift(seed)
            if shift == 'structure':
                change = StructureShift(seed, num_blocks=split.classes)
            moved = change(data)
            strange = _scores(_logits(training, moved), moved)
        result['ood'][shift] = {
            name: ood_metrics(
                score[test].numpy(), strange[name][nodes].numpy()
            )._asdict()
            for name, score in known.items()
        }
    return result


def _load(folder: Path) -> Training:
    """Return a finished training, its model in the best state."""
    plan, weights = folder / 'train.json', folder / 'model.safetensors'
    if not plan.is_file() or not weights.is_file():
        raise ConfigError(
            f"'{folder}' holds no finished training (train.json and "
            f"model.safetensors); make one with 'teg train CONFIG --out "
            f"{folder}'"
        )
    try:
        tree = json.loads(plan.read_text(encoding='utf-8'))
    except ValueError as error:
        raise ConfigError(f"cannot read '{plan}': {error}") from error
    config: TrainConfig = coerce(tree, TrainConfig, str(plan))
    training = Training(config, folder)
    training.trainer.model.load_state_dict(load_tensors(weights))
    training.trainer.model.eval()
    return training


def _logits(training: Training, data: Data) -> Tensor:
    model = training.trainer.model
    out: Tensor = model(**training.network.inputs(data, training.params))
    return out.double()


def _scores(
    logits: Tensor, data: Data, y: Tensor | None = None
) -> dict[str, Tensor]:
    energy = free_energy(logits)
    spread = EnergyPropagation()(energy, data.edge_index, y)
    return {
        'max_prob': logits.softmax(-1).amax(-1),
        'energy': -energy,
        'propagated': -spread,
    }


def _measures(logits: Tensor, y: Tensor) -> dict[str, float]:
    prob, labels = logits.softmax(-1).numpy(), y.numpy()
    return {
        'accuracy': float((prob.argmax(1) == labels).mean()),
        'ece': top_label_calibration_error(labels, prob),
        'nll': negative_log_likelihood(labels, prob),
        'brier': brier_score(labels, prob),
        'confidence_gap': confidence_gap(labels, prob),
    }
