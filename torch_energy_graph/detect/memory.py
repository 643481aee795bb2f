r"""How much memory a training step takes, and how many parts make it fit.

A step on a part of :math:`n` nodes and :math:`m` edges keeps about

.. math::
    4 \big( n (F' + 6 L C + T (8 R C + 2 K)) + 4 m H \big)
    \text{ bytes}                                                    (1)

for :math:`F'` encoded features, L embedding layers of width C, T steps with K
memories, H heads and R relations. A random partition in P parts has
:math:`n = N / P` and keeps an edge with probability :math:`1 / P`, so that
:math:`m = E / P^2`.
"""

from pathlib import Path

import torch

__all__ = ['available_bytes', 'parts_that_fit', 'step_bytes']

_MEMINFO = Path('/proc/meminfo')


def step_bytes(
    num_nodes: float,
    num_edges: float,
    num_features: int,
    hidden_channels: int,
    embedding_layers: int = 1,
    heads: int = 1,
    num_steps: int = 1,
    num_memories: int | None = None,
    num_relations: int | None = None,
) -> float:
    """Bytes of a training step, Eq. (1)."""
    memories = num_memories or 4 * hidden_channels
    per_step = 8 * (num_relations or 1) * hidden_channels + 2 * memories
    per_node = num_features + 6 * embedding_layers * hidden_channels
    per_node += num_steps * per_step
    return 4.0 * (num_nodes * per_node + 4 * num_edges * heads)


def available_bytes(device: torch.device) -> float | None:
    """Free memory of a device; :obj:`None` where it is not known."""
    if device.type == 'cuda':
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith('MemAvailable:'):
            return 1024.0 * int(line.split()[1])
    return None


def parts_that_fit(
    num_nodes: int,
    num_edges: int,
    limit: float | None,
    at_least: int = 8,
    min_nodes: int = 32,
    **shape: int | None,
) -> int:
    """The least number of random parts whose steps fit into memory.

    Args:
        num_nodes (int): N.
        num_edges (int): E.
        limit (float, optional): Bytes; no bound if :obj:`None`.
        at_least (int, optional): Parts to start from. (default: :obj:`8`)
        min_nodes (int, optional): Nodes a part should have; smaller graphs
            get fewer parts. (default: :obj:`32`)
        **shape: Further arguments of :func:`step_bytes`.

    Returns:
        int: P; 1 means the full graph.
    """
    most = max(1, num_nodes // min_nodes)
    parts = min(at_least, most)
    if limit is None:
        return parts
    while (
        parts < most
        and step_bytes(num_nodes / parts, num_edges / parts**2, **shape)  # type: ignore[arg-type]
        > limit
    ):
        parts = min(2 * parts, most)
    return parts
