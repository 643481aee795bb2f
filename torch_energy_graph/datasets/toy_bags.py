"""Bags drawn from a seed: bit patterns, latch sequences and images."""

import torch
from torch import Generator, Tensor

from torch_energy_graph.datasets.bags import Bags

__all__ = ['bit_pattern_bags', 'image_bags', 'latch_bags']


def bit_pattern_bags(
    num_bags: int = 2048,
    bag_size: int = 16,
    num_bits: int = 8,
    num_signals: int = 8,
    seed: int = 0,
) -> Bags:
    r"""Bags of random bits; those of class 1 hold one of a few signals.

    The demo of `hflayers`: signals and other instances are drawn from all
    patterns but zero, no instance is a signal by chance, and one random
    instance of every bag of class 1, the first half of the bags rounded up,
    is replaced by a random signal.

    Args:
        num_bags (int, optional): B. (default: :obj:`2048`)
        bag_size (int, optional): Instances of a bag. (default: :obj:`16`)
        num_bits (int, optional): Their size, at most 20.
            (default: :obj:`8`)
        num_signals (int, optional): Number of signals, the same in all
            bags. (default: :obj:`8`)
        seed (int, optional): Seed of all of it. (default: :obj:`0`)
    """
    if not 1 <= num_bits <= 20 or not 1 <= num_signals < 2**num_bits - 1:
        raise ValueError(
            f"expected 'num_bits' from 1 to 20, and fewer signals than there "
            f'are patterns, 1 <= num_signals < 2^num_bits - 1 (got '
            f'{num_bits} and {num_signals})'
        )
    _check_sizes(num_bags, bag_size)
    generator = Generator().manual_seed(seed)
    codes = 1 + torch.randperm(2**num_bits - 1, generator=generator)
    signals, noise = codes[:num_signals], codes[num_signals:]
    drawn = torch.randint(
        noise.numel(), (num_bags, bag_size), generator=generator
    )
    codes = noise[drawn]
    positive = torch.arange((num_bags + 1) // 2)
    place, signal = (
        torch.randint(size, positive.shape, generator=generator)
        for size in (bag_size, num_signals)
    )
    codes[positive, place] = signals[signal]
    y = torch.zeros(num_bags, dtype=torch.long)
    y[positive] = 1
    bits = codes.view(-1, 1) >> torch.arange(num_bits) & 1
    return _equal_bags(bits.float(), bag_size, y, 'bit patterns')


def latch_bags(
    num_bags: int = 4096,
    length: int = 32,
    num_symbols: int = 20,
    seed: int = 0,
) -> Bags:
    r"""Sequences of one-hot symbols whose class is the first symbol.

    The first is 0 or 1, the class; the others are drawn from the rest. The
    instances do not say where they stand.

    Args:
        num_bags (int, optional): Number of sequences. (default:
            :obj:`4096`)
        length (int, optional): Symbols of a sequence. (default: :obj:`32`)
        num_symbols (int, optional): Number of different ones.
            (default: :obj:`20`)
        seed (int, optional): Seed of all of it. (default: :obj:`0`)
    """
    if num_symbols < 3:
        raise ValueError(
            f"expected 'num_symbols' >= 3, two classes and one more (got "
            f'{num_symbols})'
        )
    _check_sizes(num_bags, length)
    generator = Generator().manual_seed(seed)
    y = torch.randint(2, (num_bags,), generator=generator)
    symbols = torch.randint(
        2, num_symbols, (num_bags, length), generator=generator
    )
    symbols[:, 0] = y
    x = torch.eye(num_symbols)[symbols.view(-1)]
    return _equal_bags(x, length, y, 'latch')


def image_bags(
    images: Tensor,
    classes: Tensor,
    target: int = 9,
    num_bags: int = 200,
    mean_size: float = 10.0,
    std_size: float = 2.0,
    seed: int = 0,
) -> Bags:
    r"""Bags of images; those of class 1 hold the target.

    The bags of digits of Ilse et al., `Attention-based Deep Multiple
    Instance Learning <https://arxiv.org/abs/1802.04712>`_: sizes are
    Gaussian, rounded, at least 1. Here classes are balanced: bags are of
    class 1 and 0 in turn; one of class 0 is drawn from the other images, one
    of class 1 from all, and if the target is not among them, one instance is
    replaced.

    Args:
        images (Tensor): Images to draw from, :math:`[M, *]`.
        classes (LongTensor): Their classes, :math:`[M]`.
        target (int, optional): The class that makes class 1.
            (default: :obj:`9`)
        num_bags (int, optional): B. (default: :obj:`200`)
        mean_size (float, optional): Mean of the sizes.
            (default: :obj:`10.0`)
        std_size (float, optional): Their deviation. (default: :obj:`2.0`)
        seed (int, optional): Seed of sizes and images.
            (default: :obj:`0`)
    """
    targets, others = (
        mask.nonzero().squeeze(1)
        for mask in (classes == target, classes != target)
    )
    if min(targets.numel(), others.numel()) == 0:
        raise ValueError(
            f'expected images of the target {target} and others (got '
            f'{targets.numel()} and {others.numel()})'
        )
    if mean_size < 1 or std_size < 0:
        raise ValueError(
            f"expected 'mean_size' >= 1 and 'std_size' >= 0 (got {mean_size} "
            f'and {std_size})'
        )
    _check_sizes(num_bags, 1)
    generator = Generator().manual_seed(seed)

    def draw(source: Tensor, count: int) -> Tensor:
        size = (count,)
        return source[torch.randint(len(source), size, generator=generator)]

    sizes = torch.randn(num_bags, generator=generator) * std_size + mean_size
    sizes = sizes.round().long().clamp(min=1)
    every, y = torch.arange(len(classes)), 1 - torch.arange(num_bags) % 2
    chosen = []
    for size, label in zip(sizes.tolist(), y.tolist(), strict=True):
        part = draw(every if label else others, size)
        if label and not bool((classes[part] == target).any()):
            part[draw(torch.arange(size), 1)] = draw(targets, 1)
        chosen.append(part)
    ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    return Bags(images[torch.cat(chosen)], ptr, y, 'bags of images')


def _equal_bags(x: Tensor, size: int, y: Tensor, name: str) -> Bags:
    return Bags(x, torch.arange(y.numel() + 1) * size, y, name)


def _check_sizes(num_bags: int, bag_size: int) -> None:
    if min(num_bags, bag_size) < 1:
        raise ValueError(
            f'expected at least one bag, of at least one instance (got '
            f'{num_bags} of {bag_size})'
        )
