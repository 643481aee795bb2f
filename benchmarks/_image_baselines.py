"""Completions without a trained network.

Every function gets images [n, c, H, W] and hidden pixels, bool [n, 1, H, W],
and returns images; hidden pixels are never read. The first two also get
training images.
"""

import numpy as np
import torch
from scipy.interpolate import CloughTocher2DInterpolator, griddata
from scipy.sparse import diags_array, eye_array, kron
from scipy.sparse.linalg import spsolve


def mean_image(train, images, hidden):
    """The mean of the training images."""
    return torch.where(hidden, train.mean(0), images)


def nearest_neighbour(train, images, hidden, block=500):
    """The training image that is nearest on the visible pixels."""
    flat = train.flatten(1)
    squares = flat.square()
    found = []
    for first in range(0, len(images), block):
        x = images[first : first + block]
        seen = ~hidden[first : first + block].expand_as(x).flatten(1)
        x = x.flatten(1).masked_fill(~seen, 0.0)
        # |x|^2 is the same for all training images
        distance = seen.float() @ squares.t() - 2 * x @ flat.t()
        found.append(distance.argmin(1))
    return torch.where(hidden, train[torch.cat(found)], images)


def cubic(images, hidden):
    """Bicubic interpolation between visible pixels (Clough-Tocher), and the
    nearest visible pixel outside their hull.
    """
    return _each_channel(images, hidden, _cubic)


def diffusion(images, hidden):
    """Harmonic: heat flows from visible pixels until it rests."""
    solve = _Smooth(_slopes(*images.shape[-2:]))
    return _each_channel(images, hidden, solve)


def biharmonic(images, hidden):
    """Biharmonic: the thin plate that bends least."""
    solve = _Smooth(_bending(*images.shape[-2:]))
    return _each_channel(images, hidden, solve)


def _each_channel(images, hidden, complete):
    out = images.double().numpy().copy()
    masks = hidden.squeeze(1).numpy()
    for image, mask in zip(out, masks, strict=True):
        if mask.all() or not mask.any():
            image[:, mask] = 0.5  # nothing is known, or nothing is hidden
            continue
        for channel in image:
            channel[mask] = complete(channel, mask)
    return torch.from_numpy(out).to(images.dtype)


def _cubic(image, mask):
    seen, wanted = np.argwhere(~mask), np.argwhere(mask)
    values = image[~mask]
    inside = CloughTocher2DInterpolator(seen, values)(wanted)
    outside = griddata(seen, values, wanted, method='nearest')
    return np.where(np.isnan(inside), outside, inside)


class _Smooth:
    """Minimises u' A u over hidden pixels, a system of linear equations."""

    def __init__(self, matrix):
        self.matrix = matrix.tocsr()

    def __call__(self, image, mask):
        mask, values = mask.ravel(), image.ravel()
        rows = self.matrix[mask]
        known = rows[:, ~mask] @ values[~mask]
        return spsolve(rows[:, mask].tocsc(), -known)


def _slopes(rows, cols):
    """Squares of first differences, summed; borders are free."""
    down = kron(_difference(rows), eye_array(cols))
    right = kron(eye_array(rows), _difference(cols))
    return down.T @ down + right.T @ right


def _bending(rows, cols):
    """Squares of second differences: those of a thin plate with free borders,
    which planes do not bend.
    """
    down, right = _difference(rows), _difference(cols)
    vertical = kron(_difference(rows - 1) @ down, eye_array(cols))
    horizontal = kron(eye_array(rows), _difference(cols - 1) @ right)
    mixed = kron(down, right)
    squares = vertical.T @ vertical + horizontal.T @ horizontal
    return squares + 2 * mixed.T @ mixed


def _difference(length):
    """Differences of neighbours, [length - 1, length]."""
    ones = np.ones(length - 1)
    shape = (length - 1, length)
    return diags_array([-ones, ones], offsets=[0, 1], shape=shape)
