"""Bags of instances with one label per bag: multiple-instance learning."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from torch_energy_graph.datasets.npz_graph import (
    Arrays,
    features_of,
    parse_meta,
    read_arrays,
)
from torch_energy_graph.datasets.roots import Root, find_file

__all__ = ['BAG_SETS', 'BagSource', 'Bags', 'load_bags']

#: Names of the public sets.
BAG_SETS = ('musk1', 'musk2', 'elephant', 'tiger')
PLACES = ('mil/{0}.npz', '{0}.npz')


class BagSource(Protocol):
    """Labelled bags in memory, or read when they are asked for."""

    @property
    def y(self) -> Tensor:
        """Class of every bag, :math:`[B]`."""

    def select(self, index: Tensor) -> 'Bags':
        """The bags of these numbers, in this order."""


@dataclass(frozen=True, eq=False)
class Bags:
    r"""Instances of all bags, one bag after the other.

    Bags of PyG's form come by :obj:`batch = Batch.from_data_list(graphs)`
    and :obj:`Bags(batch.x, batch.ptr, batch.y)`.

    Args:
        x (Tensor): Instances, :math:`[N, F]`, or of any shape
            :math:`[N, *]`.
        ptr (LongTensor): Bag :math:`b` has the instances from
            :obj:`ptr[b]` to :obj:`ptr[b + 1]`, :math:`[B + 1]`.
        y (LongTensor): Class of every bag, :math:`[B]`.
        name (str, optional): For messages. (default: :obj:`"bags"`)
        path (Path, optional): The file. (default: :obj:`None`)

    Raises:
        ValueError: If shapes do not fit, or features are not finite.
    """

    x: Tensor
    ptr: Tensor
    y: Tensor
    name: str = 'bags'
    path: Path | None = None

    def __post_init__(self) -> None:
        size, ends = self.x.size(0), self.ptr[[0, -1]].tolist()
        if ends != [0, size] or bool((self.ptr.diff() < 0).any()):
            raise ValueError(
                f"expected ptr of '{self.name}' to rise from 0 to {size}, "
                f'the number of instances (got {ends[0]} to {ends[1]})'
            )
        if self.y.shape != (len(self),) or self.y.is_floating_point():
            raise ValueError(
                f"expected y of '{self.name}' as integers of shape "
                f'[{len(self)}], one class per bag (got '
                f'{list(self.y.shape)} of {self.y.dtype})'
            )
        if self.y.numel() and int(self.y.min()) < 0:
            raise ValueError(
                f"expected classes y >= 0 in '{self.name}' (got "
                f'{int(self.y.min())}); leave bags without label out'
            )
        bad = int((~self.x.isfinite()).sum())
        if bad:
            raise ValueError(
                f"expected finite instances in '{self.name}' (got {bad} "
                f'values that are not); fill the gaps first'
            )

    def __len__(self) -> int:
        return self.ptr.numel() - 1

    @property
    def batch(self) -> Tensor:
        """Bag of every instance, :math:`[N]`."""
        bags = torch.arange(len(self), device=self.ptr.device)
        return bags.repeat_interleave(self.ptr.diff())

    def select(self, index: Tensor) -> 'Bags':
        """The bags of these numbers, in this order."""
        sizes = self.ptr.diff()[index]
        ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        start = (self.ptr[index] - ptr[:-1]).repeat_interleave(sizes)
        rows = start + torch.arange(start.numel(), device=start.device)
        return replace(self, x=self.x[rows], ptr=ptr, y=self.y[index])

    def scaled_by(self, index: Tensor) -> 'Bags':
        r"""Features with mean 0 and deviation 1 on the bags of the index.

        Constant features become 0 there. Needs instances :math:`[N, F]`.

        Args:
            index (LongTensor): Numbers of bags, those of training.
        """
        scaler = StandardScaler().fit(self.select(index).x.numpy())
        x = scaler.transform(self.x.numpy())
        return replace(self, x=torch.from_numpy(np.asarray(x)))

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}({self.name!r}, bags={len(self)}, '
            f'instances={list(self.x.shape)})'
        )


def load_bags(name: str, root: Root = None) -> Bags:
    r"""Bags by name, from a file on this machine.

    Read are npz files with instances :obj:`x` :math:`[N, F]`, boundaries
    :obj:`bag_ptr` :math:`[B + 1]` and classes :obj:`y` :math:`[B]`.

    ========  ===================  =========  ========
    name      bags (1 / 0)         instances  features
    ========  ===================  =========  ========
    musk1     92 (47 / 45)         476        166
    musk2     102 (39 / 63)        6,598      166
    elephant  200 (100 / 100)      1,391      230
    tiger     200 (100 / 100)      1,220      230
    ========  ===================  =========  ========

    Args:
        name (str): One of these, or the name of your own file without
            ending.
        root (str or Path, optional): Folder of the file; if it is not there,
            the folders of :func:`~torch_energy_graph.datasets.data_roots`
            are searched, also their :obj:`mil`. (default: :obj:`None`)
    """
    path = find_file(name, [place.format(name) for place in PLACES], root)
    arrays = read_arrays(path)
    parse_meta(arrays, path)
    try:
        return _to_bags(name, arrays, path)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"bad bags in '{path}': {error}") from error


def _to_bags(name: str, arrays: Arrays, path: Path) -> Bags:
    missing = [key for key in ('bag_ptr', 'y') if key not in arrays]
    if missing:
        raise ValueError(
            f'expected arrays {", ".join(missing)} (got '
            f'{", ".join(sorted(arrays))})'
        )
    x: Any = features_of(arrays)
    if x.ndim != 2:
        raise ValueError(f'expected x of shape [N, F] (got {list(x.shape)})')
    ptr, y = (arrays[key].astype(np.int64) for key in ('bag_ptr', 'y'))
    return Bags(
        torch.from_numpy(x),
        torch.from_numpy(ptr),
        torch.from_numpy(y),
        name,
        path,
    )
