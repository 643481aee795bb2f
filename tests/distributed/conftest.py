import pytest

from tests.distributed.ranks import Ranks


@pytest.fixture(scope='session')
def ranks(tmp_path_factory):
    """Two or three processes: `ranks.run(world_size, function, *args)`."""
    return Ranks(tmp_path_factory.mktemp('ranks'))
