import subprocess
import sys
from importlib import metadata

import pytest

import torch_energy_graph

HEAVY = ('torch', 'torch_geometric', 'ogb', 'sklearn', 'pandas', 'matplotlib')

IMPORT = 'import torch_energy_graph; dir(torch_energy_graph)'
HELP = """
import runpy
sys.argv = ['teg', *ARGS]
try:
    runpy.run_module('torch_energy_graph.cli', run_name='__main__')
except SystemExit as stop:
    assert not stop.code, stop.code
"""


def loaded_after(code):
    """Names of HEAVY that a fresh interpreter has loaded after `code`."""
    report = f"print('loaded', *(m for m in {HEAVY} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, '-c', f'import sys\n{code}\n{report}'],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


def test_the_check_sees_what_is_loaded():
    assert loaded_after('import torch') == ['torch']


def test_import_is_lazy():
    assert loaded_after(IMPORT) == []


@pytest.mark.parametrize('args', [['--help'], ['--version'], ['bench', '-h']])
def test_command_line_help_is_light(args):
    args = ['--help' if arg == '-h' else arg for arg in args]
    assert loaded_after(HELP.replace('ARGS', repr(args))) == []


@pytest.mark.parametrize('name', torch_energy_graph.__all__)
def test_every_public_name_resolves(name):
    assert name in dir(torch_energy_graph)
    assert getattr(torch_energy_graph, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'energy'"):
        torch_energy_graph.energy  # noqa: B018


def test_the_version_has_one_source():
    try:
        installed = metadata.version('torch-energy-graph')
    except metadata.PackageNotFoundError:
        pytest.skip('the package runs from its folder, not installed')
    assert installed == torch_energy_graph.__version__
