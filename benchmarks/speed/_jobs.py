"""Processes of a benchmark: a fresh one for each case, rows as JSON lines.

The parent imports no torch, so that each process has the threads, and the
memory, of its case alone.
"""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent


def serve(work):
    """Prints the rows of `work(job)`; the job is the only argument."""
    try:
        for row in work(json.loads(sys.argv[1])):
            print(json.dumps(row), flush=True)
    except KeyboardInterrupt:
        sys.exit(130)


def run_job(script, job, **variables):
    """Rows of a job, evaluated by a script in a fresh process.

    Args:
        script (str): File name in this folder; it calls `serve`.
        job (dict): What `work` gets; holds the number of `threads`.
        **variables (str): Further variables of its environment.

    Raises:
        RuntimeError: If it fails; it has said why on stderr.
    """
    # waiting threads sleep: those that spin would count as work
    env = {'OMP_WAIT_POLICY': 'PASSIVE', **os.environ, **variables}
    env['OMP_NUM_THREADS'] = str(job['threads'])
    command = [sys.executable, str(FOLDER / script), json.dumps(job)]
    with TemporaryDirectory(prefix='teg-bench-') as folder:
        # compiled code holds the number of threads it was compiled for
        env['TORCHINDUCTOR_CACHE_DIR'] = folder
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, env=env
        )
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode != 0:
        raise RuntimeError(f'{script} {json.dumps(job)!r} failed, see above')
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(script, job, all_threads):
    """Rows of each number of threads, with the memory of every method.

    Memory hardly depends on the threads: it is measured with the first.
    """
    memory = {}
    for threads in all_threads:
        job = {**job, 'threads': threads}
        rows = run_job(script, {**job, 'task': 'time'})
        for row in rows:
            name = row['method']
            if name not in memory and row['note'] is None:
                one = {**job, 'task': 'memory', 'methods': [name]}
                (memory[name],) = run_job(script, one)
        none = {'peak_forward_mib': None, 'peak_train_mib': None}
        yield [{**row, **memory.get(row['method'], none)} for row in rows]


def interruptible(main):
    """Exit status of `main`, 130 after Ctrl-C."""
    try:
        return main()
    except KeyboardInterrupt:
        return 130


def append_rows(path, rows):
    """Adds rows to a CSV file, or JSON lines; the file is whole at any time.

    Raises:
        ValueError: If a CSV file has other columns.
    """
    path = Path(path)
    old = path.read_text() if path.exists() else ''
    if path.suffix == '.csv':
        new = _csv_lines(rows, old, path)
    else:
        new = ''.join(json.dumps(row) + '\n' for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f'{path.name}.{os.getpid()}.tmp')
    draft.write_text(old + new)
    draft.replace(path)


def _csv_lines(rows, old, path):
    header = list(rows[0])
    if old and next(csv.reader(old.splitlines())) != header:
        raise ValueError(f"'{path}' has other columns; give another --out")
    lines = _Lines()
    writer = csv.DictWriter(lines, header, lineterminator='\n')
    if not old:
        writer.writeheader()
    for row in rows:
        writer.writerow({key: _short(value) for key, value in row.items()})
    return ''.join(lines)


def _short(value):
    return f'{value:.6g}' if isinstance(value, float) else value


class _Lines(list):
    write = list.append
