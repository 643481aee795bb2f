"""Sphinx configuration; the build needs no network."""

import sys
from pathlib import Path

from torch_energy_graph import __version__

sys.path.insert(0, str(Path(__file__).parent))
from _pictures import draw_all

project = 'torch_energy_graph'
author = 'torch_energy_graph contributors'
project_copyright = author
version = release = __version__

extensions = [
    'myst_parser',
    'sphinx.ext.autodoc',
    'sphinx.ext.mathjax',
    'sphinx.ext.napoleon',
]
myst_enable_extensions = ['amsmath', 'deflist', 'dollarmath']
myst_heading_anchors = 3

autodoc_default_options = {'members': True, 'imported-members': True}
autodoc_member_order = 'bysource'
autodoc_typehints_format = 'short'
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = 'furo'
html_title = f'torch_energy_graph {version}'
html_show_sphinx = False


def setup(app):
    app.connect('builder-inited', lambda app: draw_all())
