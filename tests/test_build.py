"""The build without a compiler, and the options of setup.py."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def tree(tmp_path):
    """The files that a build needs, without a built extension."""
    if not (ROOT / 'setup.py').is_file():
        pytest.skip('not in a checkout')
    ignore = shutil.ignore_patterns('*.so', '__pycache__')
    package = 'torch_energy_graph'
    shutil.copytree(ROOT / package, tmp_path / package, ignore=ignore)
    for name in ('setup.py', 'pyproject.toml', 'README.md', 'LICENSE'):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def build(tree, *command, **env):
    return subprocess.run(
        [sys.executable, *command], cwd=tree, capture_output=True, text=True,
        env={**os.environ, **env},
    )  # fmt: skip


@pytest.mark.parametrize(
    'env',
    [
        pytest.param(
            {'TEG_BUILD_EXT': '0'}, id='not wanted', marks=pytest.mark.full
        ),
        pytest.param(
            {'TEG_BUILD_EXT': 'auto', 'CC': 'false', 'CXX': 'false'},
            id='no compiler',
        ),
    ],
)
def test_without_a_binary_the_wheel_is_pure(tree, env):
    done = build(
        tree, '-m', 'pip', 'wheel', '--no-deps', '--no-build-isolation',
        '--no-index', '-w', 'out', '.', **env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = (tree / 'out').iterdir()
    assert wheel.name.endswith('py3-none-any.whl')
    names = zipfile.ZipFile(wheel).namelist()
    assert 'torch_energy_graph/csrc/cuda/attention.cuh' in names
    assert not any(name.endswith('.so') for name in names)


def test_a_wanted_binary_must_be_built(tree):
    env = {'TEG_BUILD_EXT': '1', 'CC': 'false', 'CXX': 'false'}
    done = build(tree, 'setup.py', '-q', 'build_ext', '--inplace', **env)
    assert done.returncode != 0
    assert not list(tree.rglob('*.so'))


def test_cuda_without_nvcc_is_an_error_if_wanted(tree):
    env = {'TEG_BUILD_EXT': '1', 'TEG_CUDA': '1', 'PATH': '', 'CUDACXX': ''}
    done = build(tree, 'setup.py', '-q', 'build_ext', '--inplace', **env)
    assert done.returncode != 0
    assert 'TEG_CUDA=1 needs nvcc' in done.stderr


@pytest.mark.parametrize('name', ['TEG_BUILD_EXT', 'TEG_CUDA'])
def test_a_wrong_option_is_named(tree, name):
    done = build(tree, 'setup.py', 'build_ext', **{name: 'maybe'})
    assert f"{name} must be auto, 0 or 1 (got 'maybe')" in done.stderr
