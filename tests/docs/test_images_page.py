"""The pictures of docs/images.md are those that the page draws."""

import io
import re
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / 'docs'
PAGE = (DOCS / 'images.md').read_text('utf-8')
SHOWN = re.findall(r'!\[.*?\]\(figures/(.*?)\)', PAGE)


def pixels(data):
    image = pytest.importorskip('matplotlib.image')
    return image.imread(io.BytesIO(data), format='png')[..., :3]


def test_all_pictures_are_shown():
    files = {path.name for path in (DOCS / 'figures').glob('images_*.png')}
    assert set(SHOWN) == files
    for name in files:
        assert pixels((DOCS / 'figures' / name).read_bytes()).std() > 0.02


@pytest.mark.full
def test_the_page_draws_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r'^```python\n(.*?)```$', PAGE, re.M | re.S)
    exec(compile('\n'.join(blocks), 'images.md', 'exec'), {})
    for name in SHOWN:
        drawn = pixels((tmp_path / name).read_bytes())
        stored = pixels((DOCS / 'figures' / name).read_bytes())
        assert drawn.shape == stored.shape
        # training rounds differently on other machines
        assert np.abs(drawn - stored).mean() < 0.05, name
