"""Stored splits of the nodes."""

from collections.abc import Mapping

from torch import Tensor

__all__ = ['Split', 'split_of']

Split = tuple[Tensor, Tensor, Tensor]


def split_of(name: str, part: Mapping[str, Tensor]) -> Split:
    r"""Masks (train, val, test) of a family, if they fit together.

    Args:
        name (str): Name of the family, for the message.
        part (Mapping): Bool masks :math:`[N, S]` under 'train', 'val' and
            'test'.

    Raises:
        ValueError: If a mask is absent, shapes differ or masks overlap.
    """
    shapes = {key: list(mask.shape) for key, mask in part.items()}
    if len(part) < 3 or len({tuple(s) for s in shapes.values()}) > 1:
        raise ValueError(
            f'expected train, val and test masks of one shape in split '
            f"family '{name}' (got {shapes})"
        )
    train, val, test = (part[key] for key in ('train', 'val', 'test'))
    shared = int(((train & val) | (train & test) | (val & test)).sum())
    if shared:
        raise ValueError(
            f"expected disjoint masks in split family '{name}' (got {shared} "
            f'nodes in more than one)'
        )
    return train, val, test
