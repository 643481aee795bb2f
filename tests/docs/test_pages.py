"""The Python blocks of the README and of every page run as they stand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md'))]
LINK = re.compile(r'\]\(([^)\s]+)\)')
FENCE = re.compile(r'^```(.*)\n((?:.*\n)*?)```$', re.MULTILINE)


def python_blocks(text):
    """Line number and source of the fences that are exactly `python`."""
    for fence in FENCE.finditer(text):
        if fence[1] == 'python':
            yield text.count('\n', 0, fence.start(2)), fence[2]


def test_blocks_are_found_with_their_lines():
    page = 'a\n```python\nx = 1\n```\n```console\nls\n```\n\n'
    page += '```python no-run\n1 / 0\n```\n```python\ny = 2\n```\n'
    assert list(python_blocks(page)) == [(2, 'x = 1\n'), (12, 'y = 2\n')]


@pytest.mark.parametrize(
    'page',
    [page for page in PAGES if '```python\n' in page.read_text('utf-8')],
    ids=lambda page: page.stem,
)
def test_blocks_of_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {'__name__': page.stem}
    # tracebacks show the page's own lines
    for line, source in python_blocks(page.read_text('utf-8')):
        exec(compile('\n' * line + source, str(page), 'exec'), names)


def test_readme_has_the_drop_in_example():
    text = (ROOT / 'README.md').read_text('utf-8')
    sizes = {
        len(source.strip().splitlines())
        for _, source in python_blocks(text)
        if 'EnergyTransformerConv(64, 64)' in source
    }
    assert sizes == {12}


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.stem)
def test_relative_links_lead_to_files(page):
    for link in LINK.findall(FENCE.sub('', page.read_text('utf-8'))):
        path = link.partition('#')[0]
        if '://' in link or not path or path.startswith('pictures/'):
            continue  # pictures are drawn by the build
        assert (page.parent / path).exists(), link
