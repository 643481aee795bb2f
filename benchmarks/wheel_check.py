"""One wheel, built against one torch, under another version of torch.

Builds a wheel with the interpreter that runs this, unpacks it for another
interpreter (with torch and torch-geometric of any supported version), and
lets that one import it, compare the kernels with the float64 reference, and
look for the CUDA kernels.

    python benchmarks/wheel_check.py /path/to/other/bin/python --out FILE
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

CHECK = """
import json, platform, sys
import torch
import torch_energy_graph
from torch_energy_graph.ops import (
    GraphCache, backends, energy_attention, native, use_backend)

assert torch_energy_graph.__file__.startswith(sys.argv[1])
assert native.build_error is None, native.build_error

def run(backend, dtype):
    gen = torch.Generator().manual_seed(0)
    edges = torch.randint(99, (2, 4000), generator=gen)
    edges[1, :900] = 7  # a hub
    graph = GraphCache.from_edge_index(edges, 100)
    leaves = [torch.randn(100, 4, 32, generator=gen, dtype=torch.double)
              for _ in range(2)]
    leaves.append(torch.randn(4000, 4, generator=gen, dtype=torch.double))
    leaves = [t.to(dtype).requires_grad_() for t in leaves]
    with use_backend(backend):
        lse, u, v = energy_attention(*leaves[:2], graph, 0.2, leaves[2])
        lse = lse.masked_fill(lse.isinf(), 0.0)
        loss = lse.sin().sum() + u.sin().sum() + v.sin().sum()
        return [lse, u, v, *torch.autograd.grad(loss, leaves)]

truth = run('reference', torch.float64)
errors = {}
for dtype in (torch.float64, torch.float32):
    found = run('cpu', dtype)
    errors[str(dtype)] = max(
        float((a - b).detach().abs().max() / b.detach().abs().max())
        for a, b in zip(found, truth))
assert errors['torch.float64'] < 1e-10 and errors['torch.float32'] < 2e-6
has = torch._C._dispatch_has_kernel_for_dispatch_key
names = ('attention_forward', 'attention_backward',
         'softmax_forward', 'softmax_backward')
print(json.dumps({
    'runs_under': {'torch': torch.__version__,
                   'python': platform.python_version()},
    'largest_relative_error': {
        k: float(f'{v:.1e}') for k, v in errors.items()},
    'cpu_kernels': backends()['cpu'].reason,
    'cuda_kernels_registered': all(
        has(f'torch_energy_graph_native::{n}', 'CUDA') for n in names),
}))
"""


def build(folder):
    env = {**os.environ, 'TEG_BUILD_EXT': '1'}
    subprocess.run(
        [
            *[sys.executable, '-m', 'pip', 'wheel', '--quiet', '--no-deps'],
            *['--no-build-isolation', '--wheel-dir', folder, str(ROOT)],
        ],
        check=True,
        env=env,
    )
    (wheel,) = Path(folder).glob('*.whl')
    return wheel


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('python', help='the other interpreter')
    parser.add_argument('--out', help='also append the row to this file')
    args = parser.parse_args()
    import torch

    with tempfile.TemporaryDirectory() as folder:
        wheel = build(folder)
        unpacked = Path(folder, 'site').resolve()
        zipfile.ZipFile(wheel).extractall(unpacked)
        done = subprocess.run(
            [args.python, '-c', CHECK, str(unpacked)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, 'PYTHONPATH': str(unpacked)},
        )
        row = {
            'wheel': wheel.name,
            'wheel_kb': round(wheel.stat().st_size / 1024),
            'built_with': {'torch': torch.__version__},
            **json.loads(done.stdout.splitlines()[-1]),
        }
    print(json.dumps(row))
    if args.out:
        with open(args.out, 'a') as file:
            file.write(json.dumps(row) + '\n')


if __name__ == '__main__':
    main()
