"""Leaderboard entries of OGB: ten seeds on one dataset, resumable.

``teg ogb run`` is this module's :func:`run`.
"""

import os
import traceback
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from torch_energy_graph.bench.measure import environment
from torch_energy_graph.bench.ogb_config import OGBConfig, load_ogb_config
from torch_energy_graph.bench.ogb_data import OGBTask, load_task
from torch_energy_graph.bench.ogb_store import OGBFolder
from torch_energy_graph.bench.ogb_submit import mean_text, submit, summarize
from torch_energy_graph.bench.ogb_train import Trainer
from torch_energy_graph.bench.store import Row

__all__ = [
    'OGBConfig',
    'OGBFolder',
    'check_device',
    'hardware',
    'load_ogb_config',
    'load_task',
    'mean_text',
    'run',
    'submit',
    'summarize',
]


def run(
    folder: OGBFolder,
    config: OGBConfig,
    task: OGBTask,
    command: str,
    device: str = 'cpu',
    eval_device: str | None = None,
    on_start: Callable[[Row], None] | None = None,
    on_epoch: Callable[[int, Row], None] | None = None,
    on_seed: Callable[[Row], None] | None = None,
) -> Row:
    """Train the seeds that have no result yet; failed ones are tried again.

    Args:
        folder (OGBFolder): Where the rows are stored; locked by the caller.
        config (OGBConfig): What is run.
        task (OGBTask): The dataset.
        command (str): The command line that repeats the run.
        device (str, optional): See :class:`Trainer`.
            (default: :obj:`'cpu'`)
        eval_device (str, optional): See :class:`Trainer`.
            (default: :obj:`None`)
        on_start (callable, optional): Called with what all seeds share.
            (default: :obj:`None`)
        on_epoch (callable, optional): Called with the seed and the record of
            every epoch. (default: :obj:`None`)
        on_seed (callable, optional): Called with every new row.
            (default: :obj:`None`)

    Returns:
        dict: See :func:`summarize`; also written to ``summary.json``.
    """
    folder.start(config, command)
    trainer = Trainer(task, config, device, eval_device)
    about = {
        'schema': 1,
        'dataset': config.dataset,
        'model': config.model,
        'settings': asdict(config),
        'config_hash': config.hash,
        'metric': task.metric,
        'ogb_version': task.ogb_version,
        'num_params': sum(p.numel() for p in trainer.build().parameters()),
        'num_nodes': task.graph.num_nodes,
        'num_edges': task.graph.num_edges,
        'hardware': hardware(device),
        **environment(),
        'versions': {
            'ogb': task.ogb_version,
            **environment()['versions'],
        },
    }
    if on_start is not None:
        on_start(about)
    for seed in config.seeds:
        if _is_finished(folder.read_seed(seed), about):
            continue
        row = _row(trainer, about, seed, on_epoch)
        folder.write_seed(row)
        if on_seed is not None:
            on_seed(row)
    summary = summarize(folder)
    folder.write('summary.json', summary)
    return summary


def _is_finished(row: Row | None, about: Row) -> bool:
    return row is not None and all(
        row.get(key) == value
        for key, value in {
            'status': 'ok',
            'config_hash': about['config_hash'],
            'ogb_version': about['ogb_version'],
        }.items()
    )


def _row(
    trainer: Trainer,
    about: Row,
    seed: int,
    on_epoch: Callable[[int, Row], None] | None,
) -> Row:
    """Train a seed; an error is recorded and does not stop the others."""

    def progress(record: dict[str, Any]) -> None:
        if on_epoch is not None:
            on_epoch(seed, record)

    try:
        result = {'status': 'ok', **trainer.train(seed, progress)}
    except Exception as error:
        reason = ' '.join(str(error).split()) or 'no message'
        result = {
            'status': 'failed',
            'seed': seed,
            'error': f'{type(error).__name__}: {reason}',
            'traceback': traceback.format_exc(),
        }
    now = datetime.now(timezone.utc).isoformat(timespec='seconds')
    return {**about, **result, 'finished': now}


def check_device(name: str) -> None:
    """Raise ValueError if torch cannot compute on a device."""
    try:
        torch.empty(0, device=name)
    except (AssertionError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"cannot compute on the device '{name}' ({reason}); choose "
            f'another, such as --device cpu'
        ) from None


def hardware(device: str) -> str:
    """Return name and memory of the device that trains."""
    if torch.device(device).type == 'cuda':
        found = torch.cuda.get_device_properties(device)
        return f'{found.name} ({found.total_memory / 2**30:.0f} GiB)'
    name = 'CPU'
    cpuinfo = Path('/proc/cpuinfo')
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith('model name'):
                name = line.partition(':')[2].strip()
                break
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    threads = torch.get_num_threads()
    return f'{name}, {threads} threads ({memory / 2**30:.0f} GiB)'
