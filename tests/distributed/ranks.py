"""Several processes of one group, for tests.

A forked server imports torch once; the ranks of all tests are its children.
"""

import multiprocessing
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing

START = 'spawn' if sys.platform == 'win32' else 'forkserver'
PRELOAD = ['hypothesis', 'pytest', 'torch_energy_graph.distributed']


class Ranks:
    """Processes that run a function together.

    The function runs in every rank as `function(rank, world_size, *args)`
    and asserts inside. The first error of a rank ends the others and is
    raised here with its traceback.
    """

    def __init__(self, folder):
        if START == 'forkserver':
            context = multiprocessing.get_context(START)
            context.set_forkserver_preload(PRELOAD)
        self.folder = folder
        self.calls = 0

    def run(self, world_size, function, *args):
        self.calls += 1
        store = (self.folder / f'store{self.calls}').as_uri()
        torch.multiprocessing.start_processes(
            join,
            (world_size, store, function, args),
            nprocs=world_size,
            start_method=START,
        )


def join(rank, world_size, store, function, args):
    torch.set_num_threads(1)
    dist.init_process_group(
        'gloo',
        init_method=store,
        rank=rank,
        world_size=world_size,
        timeout=timedelta(minutes=5),  # of a machine that is very busy
    )
    try:
        function(rank, world_size, *args)
    finally:
        dist.destroy_process_group()
