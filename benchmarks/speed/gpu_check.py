"""Everything about a GPU in one call: right values, ceilings, times, memory.

Prints JSON lines, each as soon as it is known. Stages run in four processes
(facts, our kernels built ahead of time, the same from NVRTC, peers), so that
a crash loses only the rest of its process. Without a GPU it says so.

    python benchmarks/speed/gpu_check.py --out gpu.jsonl
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time

from _jobs import FOLDER, append_rows, interruptible

KERNEL_STAGES = ['status', 'correctness', 'speed', 'memory', 'softmax']
GROUPS = (  # stages of a process, and where it takes our kernels from
    (['facts'], None),
    (KERNEL_STAGES, 'aot'),
    (KERNEL_STAGES, 'nvrtc'),
    (['ceilings', 'triton', 'peers'], None),
)


def run_group(stages, kernels, args, deadline):
    """Rows of stages that run in one process, as they come."""
    job = {'stages': stages, 'device': args.device, 'small': args.small}
    command = [sys.executable, str(FOLDER / '_gpu_job.py'), json.dumps(job)]
    env = dict(os.environ)
    if kernels:
        env['TEG_CUDA_KERNELS'] = kernels
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=env
    )
    left = max(deadline - time.monotonic(), 1.0)
    timer = threading.Timer(left, process.kill)
    timer.start()
    try:
        for line in process.stdout:
            yield {'kernels': kernels, **json.loads(line)}
    finally:
        timer.cancel()
        process.kill()
        status = process.wait()
    if status != 0:
        error = f'the process ended with status {status}'
        if time.monotonic() >= deadline:
            error = 'stopped: the time is over'
        yield {'kernels': kernels, 'stage': stages, 'error': error}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--out', help='append the rows as JSON lines')
    parser.add_argument('--small', action='store_true', help='tiny sizes')
    parser.add_argument(
        '--device',
        choices=('cuda', 'cpu'),
        default='cuda',
        help='cpu rehearses the stages with the backend of the CPU',
    )
    parser.add_argument('--seconds', type=float, default=290.0)
    args = parser.parse_args()
    deadline, failed = time.monotonic() + args.seconds, False
    for stages, kernels in GROUPS:
        for row in run_group(stages, kernels, args, deadline):
            print(json.dumps(row), flush=True)
            if args.out:
                append_rows(args.out, [row])
            failed |= 'error' in row or row.get('ok') is False
            if row.get('cuda_available') is False and args.device == 'cuda':
                print('no CUDA device: nothing else was run')
                return 0
    return 1 if failed else 0


if __name__ == '__main__':
    raise SystemExit(interruptible(main))
