r"""Images as tokens: patches in rows, and the edges between them.

An image :math:`[c, H, W]` with patches of :math:`p \times q` pixels has
:math:`R \times S = (H / p) \times (W / q)` patches. Patch :math:`r S + s`
stands in row r and column s; its values are ordered by channel, then by row,
then by column.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric.utils import coalesce, remove_self_loops

__all__ = [
    'grid_edges',
    'grid_shape',
    'image_to_patches',
    'pair_of',
    'patches_to_image',
    'window_of',
]

#: Reach and diagonals of the neighbourhoods that have a number.
_NUMBERED = {4: (1, False), 8: (1, True)}


def pair_of(size: int | tuple[int, int], name: str) -> tuple[int, int]:
    """Height and width; one number stands for both."""
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < 1:
        raise ValueError(f"'{name}' must be >= 1 (got {size})")
    return int(height), int(width)


def grid_shape(
    image_size: int | tuple[int, int], patch_size: int | tuple[int, int]
) -> tuple[int, int]:
    r"""Rows and columns of patches, :math:`(R, S)`.

    Args:
        image_size (int or (int, int)): Height and width in pixels.
        patch_size (int or (int, int)): Height and width of a patch.

    Raises:
        ValueError: If the patches do not tile the image.
    """
    height, width = pair_of(image_size, 'image_size')
    p, q = pair_of(patch_size, 'patch_size')
    if height % p or width % q:
        raise ValueError(
            f'patches of {p} x {q} pixels do not tile an image of {height} x '
            f'{width}; choose a divisor, or pad the image (image_to_grid_'
            f'graph does with pad_value)'
        )
    return height // p, width // q


def image_to_patches(
    images: Tensor, patch_size: int | tuple[int, int]
) -> Tensor:
    r"""Cuts images into patches.

    Args:
        images (Tensor): :math:`[B, c, H, W]`.
        patch_size (int or (int, int)): Height p and width q of a patch.

    Returns:
        Tensor: :math:`[B, R S, c p q]`.

    Raises:
        ValueError: If the shape is another, or the patches do not tile it.
    """
    if images.dim() != 4:
        raise ValueError(
            f'expected images of shape [B, c, H, W] (got '
            f'{list(images.shape)}); add the dimensions that lack with '
            f'.unsqueeze'
        )
    p, q = pair_of(patch_size, 'patch_size')
    rows, cols = grid_shape((images.size(2), images.size(3)), (p, q))
    size, channels = images.shape[:2]
    parts = images.reshape(size, channels, rows, p, cols, q)
    parts = parts.permute(0, 2, 4, 1, 3, 5)  # [B, R, S, c, p, q]
    return parts.reshape(size, rows * cols, channels * p * q)


def patches_to_image(
    patches: Tensor,
    image_size: int | tuple[int, int],
    patch_size: int | tuple[int, int],
) -> Tensor:
    r"""Joins patches: the inverse of :func:`image_to_patches`.

    Args:
        patches (Tensor): :math:`[B, R S, c p q]`.
        image_size (int or (int, int)): Height H and width W.
        patch_size (int or (int, int)): Height p and width q of a patch.

    Returns:
        Tensor: :math:`[B, c, H, W]`.

    Raises:
        ValueError: If the patches are not those of such an image.
    """
    height, width = pair_of(image_size, 'image_size')
    p, q = pair_of(patch_size, 'patch_size')
    rows, cols = grid_shape((height, width), (p, q))
    fits = patches.dim() == 3 and patches.size(1) == rows * cols
    if not fits or patches.size(2) % (p * q):
        raise ValueError(
            f'expected patches of shape [B, {rows * cols}, c * {p * q}] '
            f'(got {list(patches.shape)})'
        )
    channels = patches.size(2) // (p * q)
    parts = patches.reshape(len(patches), rows, cols, channels, p, q)
    parts = parts.permute(0, 3, 1, 4, 2, 5)  # [B, c, R, p, S, q]
    return parts.reshape(patches.size(0), channels, height, width)


def grid_edges(
    rows: int,
    cols: int,
    connectivity: int | str = 'complete',
    radius: int | None = None,
    diagonal: bool | None = None,
    self_loops: bool = True,
    periodic: bool = False,
    cls_token: bool = False,
) -> Tensor:
    r"""Edges between the patches of one image.

    Args:
        rows (int): Rows R of the grid.
        cols (int): Columns S.
        connectivity (int or str, optional): :obj:`"complete"`, :obj:`4`,
            :obj:`8`, or :obj:`"radius"`. (default: :obj:`"complete"`)
        radius (int, optional): Reach of :obj:`"radius"`, in patches.
        diagonal (bool, optional): Whether :obj:`"radius"` reaches a square
            (steps may be diagonal, so that radius 1 is :obj:`8`) or a
            diamond (radius 1 is :obj:`4`). (default: a square)
        self_loops (bool, optional): Whether a token has an edge to itself.
            (default: :obj:`True`)
        periodic (bool, optional): Whether opposite borders touch. Two
            neighbours that a small grid makes one count once.
            (default: :obj:`False`)
        cls_token (bool, optional): Whether a further token comes first, with
            edges to and from all others. (default: :obj:`False`)

    Returns:
        LongTensor: :math:`[2, E]`, sorted, without duplicates.

    Raises:
        ValueError: If arguments are unknown or contradict each other.
    """
    window = window_of(connectivity, radius, diagonal, periodic)
    num_nodes = rows * cols
    if window is None:
        nodes = torch.arange(num_nodes)
        edge_index = torch.cartesian_prod(nodes, nodes).t()
    else:
        edge_index = _window_edges(rows, cols, *window, periodic)
    if cls_token:
        tokens = torch.arange(num_nodes + 1)
        hub = torch.stack([torch.zeros_like(tokens), tokens])
        edge_index = torch.cat([edge_index + 1, hub, hub.flip(0)], dim=1)
    if not self_loops:
        edge_index, _ = remove_self_loops(edge_index)
    edges: Tensor = coalesce(edge_index, num_nodes=num_nodes + cls_token)
    return edges


def window_of(
    connectivity: int | str,
    radius: int | None = None,
    diagonal: bool | None = None,
    periodic: bool = False,
) -> tuple[int, bool] | None:
    """Radius and diagonals of a neighbourhood, or None if all see all.

    The arguments are those of :func:`grid_edges`, which this checks.
    """
    if connectivity == 'radius':
        if radius is None or radius < 1:
            raise ValueError(
                f"connectivity='radius' needs 'radius' >= 1 (got {radius})"
            )
        return radius, diagonal is not False
    if radius is not None or (connectivity == 'complete' and periodic):
        raise ValueError(
            f"'radius' belongs to connectivity='radius', and 'periodic' not "
            f'to a complete graph (got connectivity={connectivity!r})'
        )
    if connectivity != 'complete' and connectivity not in _NUMBERED:
        raise ValueError(
            f"'connectivity' must be 'complete', 4, 8 or 'radius' (got "
            f'{connectivity!r})'
        )
    reach = None
    if connectivity != 'complete':
        reach = _NUMBERED[int(connectivity)]
    implied = reach is None or reach[1]
    if diagonal is not None and diagonal != implied:
        raise ValueError(
            f"'diagonal={diagonal}' contradicts connectivity={connectivity}; "
            f"4 has no diagonals, 8 and 'complete' have them"
        )
    return reach


def _window_edges(
    rows: int, cols: int, radius: int, diagonal: bool, periodic: bool
) -> Tensor:
    """Edges to every patch from those in a window around it."""
    span = torch.arange(-radius, radius + 1)
    offsets = torch.cartesian_prod(span, span)  # [K, 2]
    if not diagonal:
        offsets = offsets[offsets.abs().sum(1) <= radius]
    size = torch.tensor([rows, cols])
    here = torch.cartesian_prod(torch.arange(rows), torch.arange(cols))
    here = here.view(-1, 1, 2)  # [N, 1, 2]
    there = here + offsets  # [N, K, 2]
    if periodic:
        there = there % size
    inside = ((there >= 0) & (there < size)).all(-1)  # [N, K]
    target = (here @ torch.tensor([cols, 1])).expand_as(inside)
    source = there @ torch.tensor([cols, 1])
    return torch.stack([source[inside], target[inside]])
