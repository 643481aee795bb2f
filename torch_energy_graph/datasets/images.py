"""Small sets of images by name, as tensors with channels first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor

from torch_energy_graph.datasets.npz_graph import read_arrays
from torch_energy_graph.datasets.roots import Root, find_file

__all__ = ['IMAGE_SHAPES', 'ImageSet', 'load_images']

#: Files of a set (training, test), or the one file, without ending.
_FILES = {
    'mnist': ('mnist_train_20k', 'mnist_test'),
    'fashion': ('fashion_sprite900',),
    'cifar10': ('cifar10_small',),
}
#: Channels, height and width by name.
IMAGE_SHAPES = {
    'digits': (1, 8, 8),
    'mnist': (1, 28, 28),
    'fashion': (1, 28, 28),
    'cifar10': (3, 32, 32),
}


@dataclass(frozen=True)
class ImageSet:
    r"""Images with pixels in [0, 1], and their classes.

    Attributes:
        train: :math:`[n, c, H, W]`, float32.
        train_y: :math:`[n]`.
        test: :math:`[m, c, H, W]`.
        test_y: :math:`[m]`.
    """

    train: Tensor
    train_y: Tensor
    test: Tensor
    test_y: Tensor


def load_images(name: str, root: Root = None) -> ImageSet:
    r"""Read a set of images.

    * ``digits``: the 1,797 8x8 digits of scikit-learn; always there.
    * ``mnist``: the first 20,000 training and all 10,000 test images.
    * ``fashion``: 900 images of Fashion-MNIST.
    * ``cifar10``: 1,000 training and 250 test images, decoded from JPEG: for
      demonstrations, not for numbers to compare.

    ``digits`` and ``fashion`` have no published split: every fifth image is a
    test image.

    Args:
        name (str): One of these names.
        root (str or Path, optional): Folder of the files, or of ``images/``
            with them; if they are not there, the folders of
            :func:`~torch_energy_graph.datasets.data_roots` are searched.
            (default: :obj:`None`)

    Raises:
        ValueError: If the name is unknown or a file is damaged.
        FileNotFoundError: If there is no such file.
    """
    if name == 'digits':
        pixels, classes = load_digits(return_X_y=True)
        return _split_by_five(_images(pixels.reshape(-1, 8, 8), 16), classes)
    if name not in _FILES:
        raise ValueError(
            f'expected one of {", ".join(IMAGE_SHAPES)} (got {name!r})'
        )
    parts = [_read(file, root) for file in _FILES[name]]
    if len(parts) == 2:
        (train, train_y), (test, test_y) = (_part(*part) for part in parts)
        return ImageSet(train, train_y, test, test_y)
    arrays, path = parts[0]
    if 'x_train' in arrays:
        return ImageSet(
            *_part(arrays, path, '_train'), *_part(arrays, path, '_test')
        )
    x, y = _part(arrays, path)
    return _split_by_five(x, y.numpy())


Part = tuple[dict[str, NDArray[np.generic]], str]


def _read(file: str, root: Root) -> Part:
    path = find_file(file, (f'images/{file}.npz', f'{file}.npz'), root)
    return read_arrays(path), str(path)


def _part(
    arrays: dict[str, NDArray[np.generic]], path: str, end: str = ''
) -> tuple[Tensor, Tensor]:
    try:
        x, y = arrays[f'x{end}'], arrays[f'y{end}']
    except KeyError as error:
        raise ValueError(f'no array {error} in {path!r}') from error
    if x.dtype != np.uint8 or x.ndim not in (3, 4) or y.shape != x.shape[:1]:
        raise ValueError(
            f'expected uint8 images x{end} [n, H, W] or [n, H, W, c] and one '
            f'class each in {path!r} (got {x.dtype} {list(x.shape)} and '
            f'{list(y.shape)})'
        )
    return _images(x, 255), torch.from_numpy(y.astype(np.int64))


def _images(pixels: NDArray[np.generic], top: int) -> Tensor:
    """Pixels by row and column, channels last, as `[n, c, H, W]`."""
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    x = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2), dtype=np.float32)
    return torch.from_numpy(x / np.float32(top))


def _split_by_five(images: Tensor, classes: NDArray[np.generic]) -> ImageSet:
    y = torch.from_numpy(np.asarray(classes, dtype=np.int64))
    is_test = torch.arange(len(images)) % 5 == 4
    return ImageSet(images[~is_test], y[~is_test], images[is_test], y[is_test])
