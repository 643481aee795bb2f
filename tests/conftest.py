import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

REQUIRE_DATA = os.environ.get('TEG_REQUIRE_DATA') == '1'

settings.register_profile('local', deadline=None)
settings.register_profile('ci', deadline=None, derandomize=True)
settings.load_profile('ci' if REQUIRE_DATA else 'local')

# Test graphs are tiny: threads only get in each other's way.
torch.set_num_threads(1)


def pytest_addoption(parser):
    parser.addoption(
        '--full', action='store_true', help='also run the long tests'
    )


def pytest_collection_modifyitems(config, items):
    if config.getoption('--full'):
        return
    skip = pytest.mark.skip(reason='long test, needs --full')
    for item in items:
        if 'full' in item.keywords:
            item.add_marker(skip)


def _missing(what):
    if REQUIRE_DATA:
        pytest.fail(f'{what} (and TEG_REQUIRE_DATA=1)', pytrace=False)
    pytest.skip(what)


def _folder_of(variable, *parts):
    root = os.environ.get(variable)
    return Path(root, *parts).resolve() if root else None


@pytest.fixture(scope='session')
def shared_root():
    """Folder of data, golden files and wheels: $TEG_SHARED."""
    folder = _folder_of('TEG_SHARED')
    if folder is None or not folder.is_dir():
        _missing(f'no shared folder (TEG_SHARED={folder})')
    return folder


@pytest.fixture(scope='session')
def data_root():
    """Folder of the npz graphs: $TEG_DATA, or $TEG_SHARED/data."""
    folder = _folder_of('TEG_DATA') or _folder_of('TEG_SHARED', 'data')
    if folder is None or not folder.is_dir():
        _missing(f'no data folder (TEG_DATA or TEG_SHARED/data={folder})')
    return folder


@pytest.fixture(scope='session')
def require_file():
    """Function that skips (or fails, if data is required) without a file."""

    def check(path):
        if not Path(path).is_file():
            _missing(f'no file {path}')
        return Path(path)

    return check
