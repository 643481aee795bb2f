"""What all encoders share: learned from a mask, applied to a graph."""

from abc import abstractmethod
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

__all__ = ['FeatureEncoder']

Array = NDArray[np.float64]
ROWS = 16384  # encoded at a time, which bounds the float64 copies
Self = TypeVar('Self', bound='FeatureEncoder')


class FeatureEncoder(BaseTransform):
    r"""A transform of :obj:`data.x` that is fitted on chosen nodes.

    Fit it on training nodes: it never reads the features of others, nor any
    label. Like every PyG transform it leaves its input as it is, so one
    fitted encoder serves graphs that come later. Subclasses say how to learn
    (:meth:`learn`) and to encode (:meth:`encode`) an array.
    """

    def fit(self: Self, data: Data, mask: Tensor) -> Self:
        r"""Learn from the masked nodes.

        Args:
            data (Data): A graph with features :obj:`x`, :math:`[N, F]`.
            mask (Tensor): Nodes to learn from, bool :math:`[N]`.
        """
        x = _features(self, data)
        if mask.dtype != torch.bool or mask.shape != (x.size(0),):
            raise ValueError(
                f"'{type(self).__name__}' expects a mask as bool of shape "
                f'[{x.size(0)}] (got {list(mask.shape)} of {mask.dtype})'
            )
        if not bool(mask.any()):
            raise ValueError(
                f"'{type(self).__name__}' expects at least one node to fit on"
            )
        self.num_features_ = x.size(1)
        self.learn(_array(x[mask.to(x.device)]))
        return self

    def forward(self, data: Data) -> Data:
        """Encode the features of all nodes."""
        x = _features(self, data)
        if not hasattr(self, 'num_features_'):
            raise ValueError(
                f"'{type(self).__name__}' is not fitted; call fit(data, "
                f'train_mask) first'
            )
        if x.size(1) != self.num_features_:
            raise ValueError(
                f"'{type(self).__name__}' was fitted on {self.num_features_} "
                f'features (got {x.size(1)})'
            )
        blocks = x.split(ROWS)
        data.x = torch.cat(
            [torch.from_numpy(self.encode(_array(b))).to(x) for b in blocks]
        )
        return data

    @abstractmethod
    def learn(self, x: Array) -> None:
        """Learn from an array of training nodes, :math:`[M, F]`."""

    @abstractmethod
    def encode(self, x: Array) -> Array:
        """Return the encoded array, :math:`[N, F']`."""


def _features(encoder: FeatureEncoder, data: Data) -> Tensor:
    x = data.x
    if not isinstance(x, Tensor) or x.dim() != 2 or not x.is_floating_point():
        got = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(
            f"'{type(encoder).__name__}' expects floating-point features 'x' "
            f'of shape [N, F] (got {got})'
        )
    return x


def _array(x: Tensor) -> Array:
    array: Array = x.detach().cpu().double().numpy()
    return array
