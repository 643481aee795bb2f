"""The transform that turns an image into a grid graph."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from torch_energy_graph.data.patches import image_to_grid_graph

__all__ = ['ToGridGraph']


class ToGridGraph(BaseTransform):
    r"""Turns an image :math:`[c, H, W]` into the graph of its patches.

    For image data sets, behind a transform that gives tensors. See
    :func:`~torch_energy_graph.data.image_to_grid_graph`, whose arguments it
    takes, and its inverse
    :func:`~torch_energy_graph.data.grid_graph_to_image`.

    Args:
        patch_size (int or (int, int)): Height and width of a patch.
        connectivity (int or str, optional): :obj:`"complete"`, :obj:`4`,
            :obj:`8`, or :obj:`"radius"`. (default: :obj:`"complete"`)
        **kwargs (optional): Further arguments of
            :func:`~torch_energy_graph.data.image_to_grid_graph`.

    Example:
        >>> ToGridGraph(4, connectivity=8)(torch.zeros(1, 28, 28)).num_nodes
        49
    """

    def __init__(
        self,
        patch_size: int | tuple[int, int],
        connectivity: int | str = 'complete',
        **kwargs: Any,
    ) -> None:
        self.patch_size = patch_size
        self.connectivity = connectivity
        self.kwargs = kwargs

    def forward(self, image: Tensor) -> Data:
        """Return the graph of an image, or the batch of several."""
        return image_to_grid_graph(
            image, self.patch_size, self.connectivity, **self.kwargs
        )

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}({self.patch_size}, '
            f'connectivity={self.connectivity!r})'
        )
