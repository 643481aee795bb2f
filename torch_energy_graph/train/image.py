"""Training of models that complete images; can stop after any batch.

All that is random in a batch (its images, their masks, noise) is drawn from
seeds that follow from the number of the batch. So a training that was stopped
goes on with the same numbers, and its state holds no random generator.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Generator, Tensor

from torch_energy_graph.nn.grid import grid_shape, image_to_patches
from torch_energy_graph.train.masking import Masking, Masks, ScatterMasking

__all__ = [
    'ImageTrainer',
    'ImageTrainOptions',
    'completion_error',
    'draw_masks',
]

Record = dict[str, Any]


@dataclass(frozen=True)
class ImageTrainOptions:
    """How a model of images is trained: AdamW, warm-up, cosine, clipping.

    The training ends after :obj:`epochs` or :obj:`minutes`, whichever is
    first; the learning rate follows what of them is used up.

    Args:
        epochs (int, optional): Passes over the training images.
            (default: :obj:`10`)
        minutes (float, optional): Time of training, without evaluation.
            With a limit, runs are not repeatable to the bit.
            (default: :obj:`None`)
        batch_size (int, optional): Images of a batch. (default: :obj:`64`)
        lr (float, optional): Highest learning rate.
            (default: :obj:`0.002`)
        warmup (float, optional): Share of the training in which the learning
            rate rises, linearly. (default: :obj:`0.05`)
        weight_decay (float, optional): Of matrices. (default: :obj:`0.05`)
        clip_norm (float, optional): Upper bound of the gradient norm.
            (default: :obj:`1.0`)
        ratio (float, optional): Share of patches in the loss, see
            :class:`~torch_energy_graph.train.masking.ScatterMasking`.
            (default: :obj:`0.5`)
        visible (float, optional): Share of these that stay visible.
            (default: :obj:`0.1`)
        seed (int, optional): Seed of batches and masks; the weights are drawn
            before, by the caller. (default: :obj:`0`)
    """

    epochs: int | None = 10
    minutes: float | None = None
    batch_size: int = 64
    lr: float = 2e-3
    warmup: float = 0.05
    weight_decay: float = 0.05
    clip_norm: float = 1.0
    ratio: float = 0.5
    visible: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        limits = [v for v in (self.epochs, self.minutes) if v is not None]
        if not limits or min(limits) <= 0:
            raise ValueError(
                f"expected 'epochs' or 'minutes', above 0 (got {self.epochs} "
                f'and {self.minutes})'
            )
        if self.batch_size < 1 or not 0 <= self.warmup < 1 or self.lr <= 0:
            raise ValueError(
                f"expected 'batch_size' >= 1, 0 <= 'warmup' < 1 and 'lr' > 0 "
                f'(got {self.batch_size}, {self.warmup} and {self.lr})'
            )
        self.masking()  # checks the rest

    def masking(self) -> ScatterMasking:
        """Return what draws the masks."""
        return ScatterMasking(self.ratio, self.visible)


class ImageTrainer:
    r"""Minimises the mean squared error on the patches of the loss.

    Args:
        model (torch.nn.Module): Called as :obj:`model(images, hidden)`, gives
            images; has a :obj:`patch_size`. Trained in place.
        images (Tensor): Training images :math:`[n, c, H, W]`.
        options (ImageTrainOptions, optional): How to train.
        val (Tensor, optional): Images on which every epoch is measured, with
            masks that stay the same, all of the loss hidden.
            (default: :obj:`None`)
        masking (Masking, optional): Draws the masks, in place of the options'
            :class:`~torch_energy_graph.train.masking.ScatterMasking`.
            (default: :obj:`None`)
    """

    def __init__(
        self,
        model: torch.nn.Module,
        images: Tensor,
        options: ImageTrainOptions | None = None,
        val: Tensor | None = None,
        masking: Masking | None = None,
    ) -> None:
        if images.dim() != 4 or len(images) == 0:
            raise ValueError(
                f'expected training images [n, c, H, W] (got '
                f'{list(images.shape)})'
            )
        self.model, self.images, self.val = model, images, val
        self.options = options or ImageTrainOptions()
        self.masking = masking or self.options.masking()
        size = (images.size(2), images.size(3))
        self.patch_size = cast(Any, model.patch_size)
        self.grid = grid_shape(size, self.patch_size)
        self.step = 0
        self.seconds = 0.0
        self.history: list[Record] = []
        self._losses = [0.0, 0.0]  # sum and number since the last record
        self.optimizer = torch.optim.AdamW(
            _groups(model, self.options.weight_decay),
            lr=self.options.lr,
            betas=(0.9, 0.99),
        )

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch; the last may be smaller."""
        return -(-len(self.images) // self.options.batch_size)

    @property
    def epoch(self) -> int:
        """Number of whole epochs so far."""
        return self.step // self.steps_per_epoch

    @property
    def progress(self) -> float:
        """Share of the training that is done, 0 to 1."""
        options, shares = self.options, []
        if options.epochs is not None:
            total = options.epochs * self.steps_per_epoch
            shares.append(self.step / total)
        if options.minutes is not None:
            shares.append(self.seconds / (60 * options.minutes))
        return min(max(shares), 1.0)

    @property
    def finished(self) -> bool:
        """Whether epochs or minutes are used up."""
        return self.progress >= 1

    def run_step(self) -> float:
        """Train on one batch; return its loss.

        Raises:
            FloatingPointError: If the loss is no longer finite.
        """
        start = time.perf_counter()
        rate = self._learning_rate()
        for group in self.optimizer.param_groups:
            group['lr'] = rate
        images, masks, seed = self._batch()
        devices = [images.device] if images.device.type == 'cuda' else []
        self.model.train()
        with torch.random.fork_rng(devices):
            torch.manual_seed(seed)
            out = self.model(images, masks.hidden)
        loss = _masked_error(out, images, masks.loss, self.patch_size)
        value = loss.item()
        if not math.isfinite(value):
            raise FloatingPointError(
                f'training diverged in step {self.step + 1} (got loss '
                f'{value}, lr={rate:.3g}); lower lr'
            )
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(
            self.model.parameters(), self.options.clip_norm
        )
        self.optimizer.step()
        self.step += 1
        self.seconds += time.perf_counter() - start
        self._losses[0] += value
        self._losses[1] += 1
        if self.step % self.steps_per_epoch == 0 or self.finished:
            self._record()
        return value

    def run(
        self,
        progress: Callable[[float], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Train what is left.

        Args:
            progress (callable, optional): Called with the loss of every
                batch. (default: :obj:`None`)
            stop (callable, optional): Asked after every batch.
                (default: never)

        Returns:
            bool: Whether the training is finished.
        """
        while not self.finished:
            value = self.run_step()
            if progress is not None:
                progress(value)
            if stop():
                break
        return self.finished

    def state(self) -> tuple[dict[str, Tensor], Record]:
        """Return tensors, and values for JSON, that :meth:`load` takes."""
        tensors = {
            f'model.{key}': value
            for key, value in self.model.state_dict().items()
        }
        for i, moments in self.optimizer.state_dict()['state'].items():
            for key, value in moments.items():
                tensors[f'optimizer.{i}.{key}'] = value
        values = {
            'step': self.step,
            'seconds': self.seconds,
            'losses': list(self._losses),
            'history': list(self.history),
        }
        return tensors, values

    def load(self, tensors: dict[str, Tensor], values: Record) -> None:
        """Go on from a state of a trainer that was made in the same way."""
        self.model.load_state_dict(
            {
                key.removeprefix('model.'): value
                for key, value in tensors.items()
                if key.startswith('model.')
            }
        )
        optimizer = self.optimizer.state_dict()
        optimizer['state'] = {}
        for key, value in tensors.items():
            if key.startswith('optimizer.'):
                _, i, name = key.split('.')
                optimizer['state'].setdefault(int(i), {})[name] = value
        self.optimizer.load_state_dict(optimizer)
        self.step = values['step']
        self.seconds = values['seconds']
        self._losses = list(values['losses'])
        self.history = list(values['history'])

    def _batch(self) -> tuple[Tensor, Masks, int]:
        """Images and masks of the next batch, and a seed for its noise."""
        options = self.options
        epoch, place = divmod(self.step, self.steps_per_epoch)
        generator = Generator().manual_seed(_seed(options.seed, epoch, 0))
        order = torch.randperm(len(self.images), generator=generator)
        first = place * options.batch_size
        images = self.images[order[first : first + options.batch_size]]
        generator.manual_seed(_seed(options.seed, self.step, 1))
        masks = self.masking(len(images), self.grid, generator)
        masks = Masks(*(mask.to(images.device) for mask in masks))
        return images, masks, _seed(options.seed, self.step, 2)

    def _learning_rate(self) -> float:
        options, done = self.options, self.progress
        if done < options.warmup:
            # the first batch has no progress, and should have a rate
            return options.lr * max(done / options.warmup, 1e-3)
        rest = (done - options.warmup) / (1 - options.warmup)
        factor = 0.5 * (1 + math.cos(math.pi * rest))
        return options.lr * max(factor, 1e-3)

    def _record(self) -> None:
        total, count = self._losses
        record: Record = {
            'epoch': self.step / self.steps_per_epoch,
            'step': self.step,
            'seconds': round(self.seconds, 3),
            'loss': total / count,
        }
        if self.val is not None:
            hidden = draw_masks(
                len(self.val), self.grid, self.options.ratio, seed=0
            )
            record['val_mse'] = completion_error(self.model, self.val, hidden)
        self.history.append(record)
        self._losses = [0.0, 0.0]


def draw_masks(
    num_images: int, grid: tuple[int, int], ratio: float = 0.5, seed: int = 0
) -> Tensor:
    r"""Hidden patches for an evaluation, the same for all models.

    Args:
        num_images (int): Number of images n.
        grid (tuple): Rows R and columns S of patches.
        ratio (float, optional): Share of hidden patches.
            (default: :obj:`0.5`)
        seed (int, optional): Seed. (default: :obj:`0`)

    Returns:
        Tensor: bool, :math:`[n, R S]`.
    """
    generator = Generator().manual_seed(seed)
    masking = ScatterMasking(ratio, visible=0.0)
    return masking(num_images, grid, generator).hidden


@torch.no_grad()
def completion_error(
    model: torch.nn.Module,
    images: Tensor,
    hidden: Tensor,
    batch_size: int = 250,
) -> float:
    """Mean squared error on the pixels of hidden patches.

    Args:
        model (torch.nn.Module): As for :class:`ImageTrainer`; evaluated in
            eval mode.
        images (Tensor): :math:`[n, c, H, W]`.
        hidden (Tensor): Hidden patches, bool :math:`[n, R S]`.
        batch_size (int, optional): Images at a time. (default: :obj:`250`)
    """
    training, patch_size = model.training, cast(Any, model.patch_size)
    model.eval()
    total, count = 0.0, 0
    try:
        for first in range(0, len(images), batch_size):
            part = images[first : first + batch_size]
            mask = hidden[first : first + batch_size].to(images.device)
            out = model(part, mask)
            error = _masked_error(out, part, mask, patch_size)
            pixels = int(mask.sum())
            total += error.item() * pixels
            count += pixels
    finally:
        model.train(training)
    return total / max(count, 1)


def _masked_error(
    out: Tensor, images: Tensor, mask: Tensor, patch_size: tuple[int, int]
) -> Tensor:
    """Mean squared error on the patches of a mask."""
    difference = image_to_patches(out - images, patch_size)  # [B, N, P]
    error = difference.square().mean(-1)  # [B, N]
    return (error * mask).sum() / mask.sum().clamp(min=1)


def _groups(model: torch.nn.Module, weight_decay: float) -> list[Record]:
    """Parameters with and without decay: matrices, and all others."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in parameters if p.dim() >= 2]
    others = [p for p in parameters if p.dim() < 2]
    return [
        {'params': matrices, 'weight_decay': weight_decay},
        {'params': others, 'weight_decay': 0.0},
    ]


def _seed(seed: int, number: int, kind: int) -> int:
    """Seed of batch or epoch `number`: no two kinds share one."""
    return (seed * 2**32 + 3 * number + kind) % 2**63
