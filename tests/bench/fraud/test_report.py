"""The report is one file, in which tables cannot become markup."""

import json
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.detect.graphs import SMALL, fraud_graph
from torch_energy_graph.bench.fraud import (
    FraudTraining,
    evaluate_run,
    fraud_config,
    html_report,
    load_run,
)
from torch_energy_graph.data.tables import TableLayout
from torch_energy_graph.detect import EnergyFraudDetector

pytest.importorskip('pandas')
pytest.importorskip('matplotlib')

EVIL = '<script>alert("x")</script>'
TYPE = '"><img src=x onerror=alert(1)>'
BROWSER = shutil.which('chromium') or shutil.which('google-chrome')


@pytest.fixture(scope='module')
def page(tmp_path_factory):
    from tests.detect.test_tables import tables

    root = tmp_path_factory.mktemp('report')
    folder = root / '<b>my'
    folder.mkdir()
    nodes, edges = tables(fraud_graph())
    edges['type'] = edges['type'].replace('pays', TYPE)
    nodes = nodes.rename(columns={'amount': EVIL})
    nodes.to_csv(folder / 'nodes.csv', index=False)
    edges.to_csv(folder / 'edges.csv', index=False)
    detector = EnergyFraudDetector(**{**SMALL, 'epochs': 2, 'ensemble': 1})
    config = fraud_config(folder, TableLayout(), ',', 0.2, detector)
    training = FraudTraining(config, root / 'run')
    training.run('teg train <b>my', lambda record: None)
    run = load_run(root / 'run')
    path = root / 'report.html'
    path.write_text(html_report(run, evaluate_run(run), ['teg train <b>my']))
    return path


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def test_one_file_and_no_markup_of_users(page):
    tags = Tags()
    tags.feed(page.read_text())
    names = [tag for tag, _ in tags.found]
    assert names.count('img') == 4
    assert not {'script', 'b', 'link', 'iframe'} & {*names}
    for _, attrs in tags.found:
        assert not any(name.startswith('on') for name in attrs)
        assert 'href' not in attrs
        source = attrs.get('src', 'data:image/png;base64,')
        assert source.startswith('data:image/png;base64,')
    assert 'url(' not in page.read_text()  # nor in styles
    # they are there as text
    text = ''.join(tags.text)
    for word in (EVIL, TYPE, '<b>my'):
        assert word in text


def test_numbers_of_the_evaluation_are_on_the_page(page):
    tags = Tags()
    tags.feed(page.read_text())
    text = tags.text
    stored = json.loads((page.parent / 'run' / 'result.json').read_text())
    assert f'{stored["threshold"]:.4g}' in ' '.join(text)
    assert text.count('trees on columns and neighbours') == 1
    for word in ('AUPRC', 'ECE', 'macro-F1', '10 % alarms', 'ensemble'):
        assert word in text


@pytest.mark.skipif(BROWSER is None, reason='needs Chromium')
def test_the_page_renders(page, tmp_path):
    from matplotlib import image

    picture = tmp_path / 'page.png'
    command = [BROWSER, '--headless', '--no-sandbox', '--disable-gpu']
    command += ['--hide-scrollbars', '--window-size=1100,3000']
    command += [f'--user-data-dir={tmp_path}', f'--screenshot={picture}']
    subprocess.run(
        [*command, page.as_uri()], check=True, timeout=120, capture_output=True
    )
    pixels = image.imread(picture)[..., :3]
    dark = (pixels < 0.5).all(-1)
    rows = np.flatnonzero(dark.any(1))
    assert rows[0] < 100  # the title
    assert rows[-1] > 2500  # the page goes on
    for colour in ((0.122, 0.467, 0.706), (1.0, 0.498, 0.055)):
        near = (np.abs(pixels - colour) < 0.02).all(-1)
        assert near.sum() > 500  # lines of the pictures
