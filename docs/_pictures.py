"""Draws the pictures of the pages with the pages' own code, at build time."""

import os
import re
from pathlib import Path

DOCS = Path(__file__).parent
FOLDER = DOCS / 'pictures'
IMAGE = re.compile(r'!\[[^\]]*\]\(pictures/([\w.-]+)\)')
BLOCK = re.compile(r'^```python\n((?:.*\n)*?)```$', re.MULTILINE)


def draw_all() -> None:
    """Run every page that shows a picture of the folder, inside of it.

    Raises:
        FileNotFoundError: If a page does not draw what it shows.
    """
    for page in sorted(DOCS.glob('*.md')):
        text = page.read_text('utf-8')
        names = set(IMAGE.findall(text))
        if not names:
            continue
        FOLDER.mkdir(exist_ok=True)
        scope: dict[str, object] = {'__name__': page.stem}
        before = Path.cwd()
        os.chdir(FOLDER)
        try:
            for block in BLOCK.findall(text):
                exec(compile(block, str(page), 'exec'), scope)
        finally:
            os.chdir(before)
        missing = sorted(n for n in names if not (FOLDER / n).is_file())
        if missing:
            raise FileNotFoundError(
                f'{page.name} shows pictures/{missing[0]}, but its code does '
                f'not write {missing[0]}'
            )
