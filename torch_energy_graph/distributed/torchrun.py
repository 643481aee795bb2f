"""The process group of a script started by torchrun."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

import torch
import torch.distributed as dist

__all__ = ['Worker', 'torchrun_group']

_VARIABLES = ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'MASTER_ADDR', 'MASTER_PORT')


class Worker(NamedTuple):
    """One process of a group.

    Args:
        rank (int): Its number, from zero.
        world_size (int): Number of processes.
        device (torch.device): The device it works on.
    """

    rank: int
    world_size: int
    device: torch.device


@contextmanager
def torchrun_group(
    backend: str | None = None, timeout_s: float = 600.0
) -> Iterator[Worker]:
    """Open the process group that torchrun prepared; close it at the end.

    Args:
        backend (str, optional): :obj:`"gloo"` (CPU) or :obj:`"nccl"` (one
            GPU per process). If :obj:`None`, nccl where this machine has a
            GPU for every one of its processes. (default: :obj:`None`)
        timeout_s (float, optional): How long a rank waits for the others
            before it fails, in seconds. (default: :obj:`600.0`)

    Yields:
        Worker: Rank, number of ranks and device.

    Raises:
        RuntimeError: If the script was not started by torchrun.
        ValueError: If there are fewer GPUs than nccl needs.
    """
    missing = [name for name in _VARIABLES if name not in os.environ]
    if missing:
        raise RuntimeError(
            f'expected a process started by torchrun (got no '
            f'{", ".join(missing)} in the environment); start it with '
            f'torchrun --nproc_per_node 2 SCRIPT'
        )
    local_rank = int(os.environ['LOCAL_RANK'])
    local_size = int(os.environ.get('LOCAL_WORLD_SIZE', local_rank + 1))
    gpus = torch.cuda.device_count()
    if backend is None:
        backend = 'nccl' if gpus >= local_size else 'gloo'
    device = torch.device('cpu')
    if backend == 'nccl':
        if local_rank >= gpus:
            raise ValueError(
                f"expected a GPU for every process of backend 'nccl' (got "
                f"{gpus} GPUs, local rank {local_rank}); use backend 'gloo'"
            )
        device = torch.device('cuda', local_rank)
        torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s))
    try:
        yield Worker(dist.get_rank(), dist.get_world_size(), device)
    finally:
        dist.destroy_process_group()
