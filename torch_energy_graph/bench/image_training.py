"""Training of an image model with its files: what ``teg train image`` does.

The folder holds ``train.json`` (what is trained), the last state,
``history.csv`` and, at the end, ``model.safetensors`` and ``result.json``.
"""

import csv
import dataclasses
import io
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from torch_energy_graph.bench.coerce import ConfigError, coerce
from torch_energy_graph.bench.config import NAME, read_tree, typed
from torch_energy_graph.bench.measure import environment
from torch_energy_graph.bench.settings import (
    check_settings,
    dump,
    read_settings,
    write_settings,
)
from torch_energy_graph.datasets.images import (
    IMAGE_SHAPES,
    ImageSet,
    load_images,
)
from torch_energy_graph.datasets.roots import Root
from torch_energy_graph.nn.models.image_energy_transformer import (
    ImageEnergyTransformer,
)
from torch_energy_graph.train import (
    load_state,
    load_tensors,
    save_state,
    save_tensors,
    write_atomic,
)
from torch_energy_graph.train.image import (
    ImageTrainer,
    ImageTrainOptions,
    completion_error,
    draw_masks,
)

__all__ = [
    'ImageConfig',
    'ImageModelConfig',
    'ImageTraining',
    'load_image_config',
    'load_image_model',
]

Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class ImageModelConfig:
    """Arguments of an ``ImageEnergyTransformer``, but for the images'."""

    patch_size: int = 4
    hidden_channels: int = 64
    heads: int = 4
    head_channels: int | None = None
    num_memories: int | None = None
    num_steps: int = 12
    step_size: float | Literal['learn', 'auto'] = 0.1
    connectivity: Literal['complete', 'radius'] | int = 'complete'
    radius: int | None = None
    diagonal: bool | None = None
    self_loops: bool = True
    periodic: bool = False
    cls_token: bool = False
    positions: Literal['learned', 'sinusoidal'] = 'learned'
    position_std: float = 0.5
    clamp: bool = False
    noise_std: float = 0.0
    checkpoint: bool = False
    activation: str = 'relu'
    beta: float | Literal['learn'] | None = None


_MODEL, _OPTIONS = ImageModelConfig(), ImageTrainOptions()


@dataclasses.dataclass(frozen=True)
class ImageConfig:
    """A model of the images of one set.

    Args:
        task (str): What is trained; 'images'.
        name (str): Name of the training; its files lie in ``runs/<name>``
            unless told otherwise.
        dataset (str): Name of a set, see
            :func:`~torch_energy_graph.datasets.images.load_images`.
        model (ImageModelConfig, optional): The model.
        training (ImageTrainOptions, optional): How it is trained.
        seed (int, optional): Seed of the weights. (default: :obj:`0`)
        save_seconds (float, optional): Seconds of training between two saved
            states. (default: :obj:`60.0`)
    """

    task: Literal['images']
    name: str
    dataset: str
    model: ImageModelConfig = _MODEL
    training: ImageTrainOptions = _OPTIONS
    seed: int = 0
    save_seconds: float = 60.0

    def __post_init__(self) -> None:
        if NAME.fullmatch(self.name) is None:
            raise ConfigError(
                "'name': expected letters, digits, '_' and '.' "
                f"(got '{self.name}')"
            )
        if self.dataset not in IMAGE_SHAPES:
            raise ConfigError(
                f"'dataset': expected one of {', '.join(IMAGE_SHAPES)} (got "
                f"'{self.dataset}')"
            )
        if not self.save_seconds > 0:
            raise ConfigError(
                f"'save_seconds': expected a number > 0 (got "
                f'{self.save_seconds})'
            )

    def build(self) -> ImageEnergyTransformer:
        """Return the model, with weights drawn from the seed.

        Raises:
            ConfigError: If it does not fit the images of the set.
        """
        channels, *size = IMAGE_SHAPES[self.dataset]
        arguments = dataclasses.asdict(self.model)
        with torch.random.fork_rng([]):
            torch.manual_seed(self.seed)
            try:
                return ImageEnergyTransformer(
                    (size[0], size[1]), in_channels=channels, **arguments
                )
            except ValueError as error:
                raise ConfigError(f"'model': {error}") from error


def load_image_config(
    path: str | os.PathLike[str], overrides: Sequence[str] = ()
) -> ImageConfig:
    """Read the configuration of an image model.

    Args:
        path (str or PathLike): A YAML file.
        overrides (sequence of str, optional): ``a.b=c`` each.
            (default: :obj:`()`)

    Raises:
        ConfigError: With file, key and what was expected.
    """
    tree = read_tree(path, overrides)
    try:
        config: ImageConfig = typed(tree, ImageConfig, path)
    except ConfigError:
        raise
    except ValueError as error:  # of the training options
        raise ConfigError(f'{path}: {error}') from error
    return config


class ImageTraining:
    """A training that can be interrupted after any batch and go on.

    Args:
        config (ImageConfig): What to train.
        folder (Path): Where its files lie; a state that is there is resumed
            if it is of the same configuration.
        root (str or Path, optional): Folder of the images.
            (default: :obj:`None`)
    """

    def __init__(
        self, config: ImageConfig, folder: Path, root: Root = None
    ) -> None:
        check_settings(folder, config)
        self.config, self.folder = config, folder
        self.images: ImageSet = load_images(config.dataset, root)
        self.trainer = ImageTrainer(
            config.build(), self.images.train, config.training
        )
        state = load_state(folder)
        if state is not None:
            self.trainer.load(*state)
        self.resumed_at = self.trainer.step
        self._saved_at = self.trainer.seconds

    def run(
        self,
        progress: Callable[[float], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Record | None:
        """Train what is left; return the result, or None if stopped.

        Args:
            progress (callable, optional): Called with the loss of every
                batch. (default: :obj:`None`)
            stop (callable, optional): Asked after every batch; the state is
                saved then. (default: never)
        """
        result = self.folder / 'result.json'
        if self.trainer.finished and result.exists():
            row: Record = json.loads(result.read_text(encoding='utf-8'))
            return row
        if self.trainer.step == 0:
            write_settings(self.folder, self.config)

        def pause() -> bool:
            waited = self.trainer.seconds - self._saved_at
            if waited >= self.config.save_seconds:
                self.save()
            return stop()

        finished = self.trainer.run(progress, pause)
        self.save()
        return self._finish() if finished else None

    def save(self) -> None:
        """Write state and history."""
        save_state(self.folder, *self.trainer.state())
        self._saved_at = self.trainer.seconds
        history = self.trainer.history
        if history:
            file = io.StringIO()
            writer = csv.DictWriter(file, history[0], lineterminator='\n')
            writer.writeheader()
            writer.writerows(history)
            write_atomic(self.folder / 'history.csv', file.getvalue())

    def _finish(self) -> Record:
        trainer, test = self.trainer, self.images.test
        ratio = self.config.training.ratio
        hidden = draw_masks(len(test), trainer.grid, ratio)
        parameters = trainer.model.parameters()
        row = {
            **dataclasses.asdict(self.config),
            'test_mse': completion_error(trainer.model, test, hidden),
            'last_step': trainer.step,
            'last_epoch': round(trainer.step / trainer.steps_per_epoch, 3),
            'num_parameters': sum(p.numel() for p in parameters),
            'seconds': round(trainer.seconds, 3),
            **environment(),
        }
        weights = trainer.model.state_dict()
        save_tensors(self.folder / 'model.safetensors', weights)
        write_atomic(self.folder / 'result.json', dump(row))
        return row


def load_image_model(
    folder: Path,
) -> tuple[ImageEnergyTransformer, ImageConfig]:
    """Read the model of a training, as far as it has come.

    Args:
        folder (Path): Folder of an :class:`ImageTraining`.

    Raises:
        ConfigError: If it is none, or nothing was saved yet.
    """
    stored = read_settings(folder)
    if stored is None or stored.get('task') != 'images':
        raise ConfigError(
            f"'{folder}' is not the folder of an image model (no train.json "
            f"with task: images); make one with 'teg train image CONFIG "
            f"--out {folder}'"
        )
    config: ImageConfig = coerce(stored, ImageConfig, str(folder))
    model = config.build()
    weights = folder / 'model.safetensors'
    if weights.exists():
        tensors = load_tensors(weights)
    else:
        state = load_state(folder)
        if state is None:
            raise ConfigError(f"no state was saved in '{folder}' yet")
        tensors = {
            key.removeprefix('model.'): value
            for key, value in state[0].items()
            if key.startswith('model.')
        }
    model.load_state_dict(tensors)
    return model.eval(), config
