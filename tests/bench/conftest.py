import importlib.util
from pathlib import Path

import pytest

TINY = Path(__file__).with_name('tiny.py')


@pytest.fixture(scope='session')
def tiny():
    """The module tests/bench/tiny.py, its models and datasets registered."""
    spec = importlib.util.spec_from_file_location('teg_tiny', TINY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def write_config(tmp_path):
    """Write a configuration and return its path."""

    def write(text, name='tiny.yaml'):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write
