r"""Images as grid graphs, and back without loss.

One node per patch, in rows; its features :obj:`x` are the pixels, by channel,
row and column; :obj:`pos` is its row and column. What the way back needs is
stored with the graph, so graphs can be batched, sent through models that
change :obj:`x`, and turned into images again.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric.data import Batch, Data

from torch_energy_graph.nn.grid import (
    grid_edges,
    grid_shape,
    image_to_patches,
    pair_of,
    patches_to_image,
)

__all__ = ['grid_graph_to_image', 'image_to_grid_graph']


def image_to_grid_graph(
    images: Tensor,
    patch_size: int | tuple[int, int],
    connectivity: int | str = 'complete',
    radius: int | None = None,
    diagonal: bool | None = None,
    self_loops: bool = True,
    periodic: bool = False,
    cls_token: bool = False,
    pad_value: float | None = None,
) -> Data:
    r"""One graph per image, with a node per patch.

    Args:
        images (Tensor): One image :math:`[c, H, W]` or a batch
            :math:`[B, c, H, W]`, of any type.
        patch_size (int or (int, int)): Height p and width q of a patch.
        connectivity (int or str, optional): :obj:`"complete"`, :obj:`4`,
            :obj:`8`, or :obj:`"radius"`. (default: :obj:`"complete"`)
        radius (int, optional): Reach of :obj:`"radius"`, in patches.
        diagonal (bool, optional): Whether :obj:`"radius"` reaches a square
            or a diamond. (default: a square)
        self_loops (bool, optional): Whether nodes have an edge to
            themselves. (default: :obj:`True`)
        periodic (bool, optional): Whether opposite borders touch.
            (default: :obj:`False`)
        cls_token (bool, optional): Whether a further node comes first, with
            features zero, position :math:`(-1, -1)` and edges to and from
            all others; :obj:`cls_mask` names it. (default: :obj:`False`)
        pad_value (float, optional): Value of the pixels that are added below
            and on the right if the patches do not tile the image; without
            one, such an image is refused. (default: :obj:`None`)

    Returns:
        Data: A graph with :obj:`x` :math:`[R S, c p q]`, :obj:`pos`
        :math:`[R S, 2]`, :obj:`edge_index`, :obj:`image_size` and
        :obj:`patch_size` :math:`[1, 2]`; for a batch, a
        :class:`~torch_geometric.data.Batch` of them.

    Raises:
        ValueError: If the shape, the patches or the neighbourhood is wrong.
    """
    if images.dim() not in (3, 4):
        raise ValueError(
            f'expected an image [c, H, W] or images [B, c, H, W] (got '
            f'{list(images.shape)}); grey images need a channel, such as '
            f'images.unsqueeze(1)'
        )
    batched = images.dim() == 4
    images = images if batched else images.unsqueeze(0)
    size = (images.size(2), images.size(3))
    patch = pair_of(patch_size, 'patch_size')
    if pad_value is not None:
        images = _padded(images, patch, pad_value)
    rows, cols = grid_shape((images.size(2), images.size(3)), patch)
    x = image_to_patches(images, patch)  # [B, R * S, P]
    pos = torch.cartesian_prod(torch.arange(rows), torch.arange(cols))
    edge_index = grid_edges(
        rows,
        cols,
        connectivity,
        radius,
        diagonal,
        self_loops,
        periodic,
        cls_token,
    )
    one = {
        'pos': pos.float(),
        'edge_index': edge_index,
        'image_size': torch.tensor([size]),
        'patch_size': torch.tensor([patch]),
    }
    if cls_token:
        x = F.pad(x, (0, 0, 1, 0))
        one['pos'] = F.pad(one['pos'], (0, 0, 1, 0), value=-1.0)
        one['cls_mask'] = torch.arange(x.size(1)) == 0
    one = {key: value.to(x.device) for key, value in one.items()}
    return _collated(x, one) if batched else Data(x=x[0], **one)


def grid_graph_to_image(data: Data) -> Tensor:
    r"""The image of a grid graph, or the images of a batch of equal grids.

    Args:
        data (Data): From :func:`image_to_grid_graph`; its features may have
            changed, its nodes not.

    Returns:
        Tensor: :math:`[c, H, W]`, or :math:`[B, c, H, W]` for a
        :class:`~torch_geometric.data.Batch`; padding is cut off.

    Raises:
        ValueError: If the graph is none of a grid, or a batch mixes sizes.
    """
    if 'image_size' not in data or 'patch_size' not in data:
        raise ValueError(
            "expected a graph with 'image_size' and 'patch_size', as "
            "'image_to_grid_graph' makes it"
        )
    sizes = torch.cat([data.image_size, data.patch_size], dim=1)  # [B, 4]
    if sizes.size(0) == 0:
        raise ValueError('expected at least one image (got an empty batch)')
    if bool((sizes != sizes[0]).any()):
        raise ValueError(
            'expected images of one size (got several in one batch); take '
            'them apart with .to_data_list()'
        )
    height, width, p, q = sizes[0].tolist()
    x = data.x if 'cls_mask' not in data else data.x[~data.cls_mask]
    full = (-(-height // p) * p, -(-width // q) * q)
    rows, cols = grid_shape(full, (p, q))
    if x.size(0) != sizes.size(0) * rows * cols:
        raise ValueError(
            f'expected {rows * cols} patches for each of {sizes.size(0)} '
            f'images of {height} x {width} (got {x.size(0)} nodes)'
        )
    patches = x.view(sizes.size(0), rows * cols, -1)
    images = patches_to_image(patches, full, (p, q))[..., :height, :width]
    return images if isinstance(data, Batch) else images[0]


def _padded(images: Tensor, patch: tuple[int, int], value: float) -> Tensor:
    below = -images.size(2) % patch[0]
    right = -images.size(3) % patch[1]
    return F.pad(images, (0, right, 0, below), value=value)


def _collated(x: Tensor, one: dict[str, Tensor]) -> Data:
    """A batch of equal graphs, as `Batch.from_data_list` makes it.

    It would build and join every graph by itself; here, all is one repeat.

    Args:
        x (Tensor): Features :math:`[B, N, P]`.
        one (dict): All other attributes of one graph.
    """
    size, num_nodes, _ = x.shape
    batch = Batch(_base_cls=Data)
    graphs = torch.arange(size, device=x.device)
    batch.x = x.flatten(0, 1)
    counts, incs = {'x': num_nodes}, {}
    for key, value in one.items():
        if key == 'edge_index':
            shift = (graphs * num_nodes).view(1, -1, 1)
            edges = value.unsqueeze(1) + shift  # [2, B, E]
            batch[key] = edges.flatten(1)
            counts[key] = value.size(1)
            incs[key] = graphs.cpu() * num_nodes
        else:
            repeats = (size,) + (1,) * (value.dim() - 1)
            batch[key] = value.repeat(repeats)
            counts[key] = value.size(0)
    batch.batch = graphs.repeat_interleave(num_nodes)
    batch.ptr = torch.arange(size + 1, device=x.device) * num_nodes
    ends = torch.arange(size + 1)
    none = torch.zeros(size, dtype=torch.long)
    batch._num_graphs = size
    batch._slice_dict = {key: ends * count for key, count in counts.items()}
    batch._inc_dict = {key: incs.get(key, none) for key in counts}
    return batch
