"""Means over seeds, and the text of a leaderboard submission."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torch_energy_graph.bench.ogb_config import SEEDS
from torch_energy_graph.bench.ogb_store import OGBFolder
from torch_energy_graph.bench.store import Row, write_atomic

__all__ = ['FORM', 'mean_text', 'problems', 'submit', 'summarize']

MIN_OGB = (1, 1, 1)
PARTS = ('train', 'valid', 'test')
PER_SEED = (
    'seed',
    'best_epoch',
    'last_epoch',
    *PARTS,
    'seconds',
    'peak_mem_mb',
    'peak_gpu_mem_mb',
)
# what only the authors know, with the question of the form
FORM = {
    'contact': 'Contact (name and mail address)',
    'code': 'Code (public repository with this command in its README)',
    'paper': 'Paper (link)',
}


def summarize(folder: OGBFolder) -> Row:
    """Return all that is reported of the finished seeds.

    Means are :obj:`torch.mean`, deviations the unbiased :obj:`torch.std`
    (:obj:`None` of a single seed), of what OGB's Evaluator returned.
    """
    plan, config = folder.read_plan(), folder.read_config()
    rows = [row for s in config.seeds if (row := folder.read_seed(s))]
    done = [row for row in rows if row['status'] == 'ok']
    first: Row = done[0] if done else {}
    shared = ('metric', 'ogb_version', 'num_params', 'versions')
    return {
        'schema': 1,
        'dataset': config.dataset,
        'method': config.method,
        'external_data': config.external_data,
        **plan,
        **{key: first.get(key) for key in shared},
        'hardware': _every(done, 'hardware'),
        'git_commit': _every(done, 'git'),
        'seeds': [row['seed'] for row in done],
        'failed': {
            str(row['seed']): row['error']
            for row in rows
            if row['status'] == 'failed'
        },
        **_means(done),
        'time_s': round(sum(row['seconds'] for row in done), 1),
        'peak_mem_mb': _largest(done, 'peak_mem_mb'),
        'peak_gpu_mem_mb': _largest(done, 'peak_gpu_mem_mb'),
        'per_seed': [{key: row[key] for key in PER_SEED} for row in done],
    }


def submit(folder: OGBFolder, answers: Mapping[str, str]) -> tuple[Row, str]:
    """Check an entry and write ``submission.txt`` and ``submission.json``.

    Args:
        folder (OGBFolder): Where the entry was run.
        answers (Mapping[str, str]): By key of :obj:`FORM`; what is left out
            stays blank in the text.

    Returns:
        tuple: The content of the JSON file, and the text.

    Raises:
        ValueError: If the entry does not keep the rules; with all reasons.
    """
    found = problems(folder)
    if found:
        raise ValueError(
            f"'{folder.path}' is not ready to be submitted: {'; '.join(found)}"
        )
    summary = summarize(folder)
    text = _text(summary, answers)
    write_atomic(folder.path / 'submission.txt', text)
    summary = {**summary, 'form': dict(answers)}
    folder.write('submission.json', summary)
    return summary, text


def problems(folder: OGBFolder) -> list[str]:
    """Return what keeps an entry from being submitted."""
    config = folder.read_config()
    found = []
    if sorted(config.seeds) != list(SEEDS):
        found.append(
            f'it was run with the seeds {list(config.seeds)}, not 0 to 9'
        )
    rows = {seed: folder.read_seed(seed) for seed in config.seeds}
    done = [row for row in rows.values() if row and row['status'] == 'ok']
    missing = [s for s, row in rows.items() if row not in done]
    if missing:
        command = folder.read_plan()['command']
        found.append(f'seeds {missing} have no result, repeat: {command}')
    others = [row['seed'] for row in done if row['config_hash'] != config.hash]
    if others:
        found.append(f'seeds {others} were run with other settings')
    for key, what in (
        ('ogb_version', 'versions of OGB'),
        ('num_params', 'numbers of parameters'),
        ('num_edges', 'numbers of edges'),
    ):
        values = sorted({row[key] for row in done})
        if len(values) > 1:
            found.append(f'seeds differ in their {what} {values}')
    old = {row['ogb_version'] for row in done if _is_old(row['ogb_version'])}
    if old:
        needed = '.'.join(map(str, MIN_OGB))
        found.append(f'OGB {", ".join(sorted(old))} is older than {needed}')
    return found


def _is_old(version: str) -> bool:
    parts = tuple(int(part) for part in version.split('.')[:3])
    return parts < MIN_OGB


def _means(done: Sequence[Row]) -> Row:
    means: Row = {}
    for part in PARTS:
        values = torch.tensor([row[part] for row in done], dtype=torch.double)
        enough = len(done) > 1
        means[f'{part}_mean'] = values.mean().item() if done else None
        means[f'{part}_std'] = values.std().item() if enough else None
    return means


def _every(done: Sequence[Row], key: str) -> str:
    """Return the different values; one, unless a run was resumed elsewhere."""
    return '; '.join(sorted({str(row[key]) for row in done}))


def _largest(done: Sequence[Row], key: str) -> Any:
    return max(
        (row[key] for row in done if row[key] is not None), default=None
    )


def _text(summary: Row, answers: Mapping[str, str]) -> str:
    """Return the answers to the form, one a line."""
    metric = summary['metric']
    versions = ', '.join(f'{k} {v}' for k, v in summary['versions'].items())
    lines = {
        'Dataset': summary['dataset'],
        'Method': summary['method'],
        'External data': 'yes' if summary['external_data'] else 'no',
        'OGB version': summary['ogb_version'],
        f'Test {metric}': mean_text(summary, 'test'),
        f'Validation {metric}': mean_text(summary, 'valid'),
        'Parameters': summary['num_params'],
        'Hardware': summary['hardware'],
        **{title: answers.get(key, '') for key, title in FORM.items()},
        'Command': summary['command'],
        'Commit': summary['git_commit'],
        'Versions': versions,
        'Settings': json.dumps(summary['settings']),
    }
    table = [f'{title}: {value}'.rstrip() for title, value in lines.items()]
    table += ['', 'seed  best epoch   train   valid    test   seconds']
    table += [
        f'{row["seed"]:4}{row["best_epoch"]:12}{row["train"]:8.4f}'
        f'{row["valid"]:8.4f}{row["test"]:8.4f}{row["seconds"]:10.1f}'
        for row in summary['per_seed']
    ]
    return '\n'.join(table) + '\n'


def mean_text(summary: Row, part: str) -> str:
    """Return mean and deviation with the four decimals of the form."""
    mean, std = summary[f'{part}_mean'], summary[f'{part}_std']
    if mean is None:
        return 'no finished seed'
    if std is None:
        return f'{mean:.4f} (one seed)'
    return f'{mean:.4f} +- {std:.4f}'
