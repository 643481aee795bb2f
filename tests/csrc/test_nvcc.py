"""nvcc compiles the kernels for every target, and no register is spilled."""

import re
import shutil
import subprocess

import pytest

TARGETS = ['sm_75', 'sm_80', 'sm_90', 'sm_100', 'sm_120']
PASSES = ['fwd_row', 'fwd_col', 'bwd_row', 'bwd_col']
SOFTMAX = {
    f'scatter_softmax_{direction}_{dtype}'
    for direction in ('forward', 'backward')
    for dtype in ('f32', 'bf16')
}


def attention_names(types, lane_counts):
    return {
        f'ea_{name}_{dtype}_l{lanes}'
        for name in PASSES
        for dtype in types
        for lanes in lane_counts
    } | {f'ea_{name}_merge_{dtype}' for name in PASSES for dtype in types}


ALL = attention_names(['f32', 'bf16'], [1, 2, 4, 8, 16, 32]) | SOFTMAX


@pytest.fixture
def spills(csrc, tmp_path):
    """Compiles a header; bytes spilled by every kernel in it."""
    nvcc = shutil.which('nvcc')
    if nvcc is None:
        pytest.skip('no nvcc on the PATH')

    def compile_(name, target, *options):
        done = subprocess.run(
            [
                *(nvcc, '-std=c++17', f'-arch={target}', '-Xptxas', '-v'),
                *options,
                *('-x', 'cu', '-cubin', '-o', str(tmp_path / 'out.cubin')),
                str(csrc / 'cuda' / name),
            ],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        blocks = done.stderr.split('Compiling entry function ')[1:]
        out = {}
        for block in blocks:
            kernel = re.match(r"'(\w+)'", block).group(1)
            counts = re.findall(r'(\d+) bytes spill', block)
            assert len(counts) == 2, block  # stores and loads
            out[kernel] = sum(map(int, counts))
        return out

    return compile_


@pytest.mark.parametrize(
    ('target', 'dtype', 'lanes'),
    [
        ('sm_75', 'f32', 8),
        ('sm_80', 'bf16', 4),
        ('sm_100', 'f32', 8),
        ('sm_120', 'bf16', 4),
    ],
)
def test_one_variant(spills, target, dtype, lanes):
    only = f'-DTEG_ONLY_{dtype.upper()}', f'-DTEG_ONLY_LPH={lanes}'
    out = spills('attention.cuh', target, *only)
    assert out == dict.fromkeys(attention_names([dtype], [lanes]), 0)


def test_all_variants_on_one_target(spills):
    assert spills('launch.cuh', 'sm_90') == dict.fromkeys(ALL, 0)


@pytest.mark.full
@pytest.mark.parametrize('target', TARGETS)
def test_all_variants_on_every_target(spills, target):
    assert spills('launch.cuh', target) == dict.fromkeys(ALL, 0)
