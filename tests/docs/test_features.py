"""The table of features is made from results, and names tests that exist."""

import re
import runpy
from pathlib import Path

import pytest

from tests.nn import test_contracts as contracts

DOCS = Path(__file__).parents[2] / 'docs'
XML = """<testsuites><testsuite>
<testcase classname="tests.nn.test_contracts" name="test_drop_in[{}]"/>
<testcase classname="tests.nn.test_contracts" name="test_drop_in[{}]">
<failure message="no"/></testcase>
<testcase classname="tests.nn.test_contracts" name="test_other[a-exports]"/>
</testsuite></testsuites>"""


@pytest.fixture
def features():
    return runpy.run_path(str(DOCS / '_features.py'))


def test_a_feature_is_what_all_variants_pass(features, tmp_path):
    path = tmp_path / 'results.xml'
    path.write_text(XML.format('difformer-exports', 'difformer-a-exports'))
    found = features['results'](path)
    assert found == {
        ('test_contracts', 'difformer-exports'): True,
        ('test_contracts', 'difformer-a-exports'): False,
    }
    rows = features['variants'](found, 'test_contracts', 'difformer')
    assert features['cell'](rows, ('exports',)) == '(✓)'
    assert features['cell'](rows, ('gradients',)) == '\N{EN DASH}'
    del rows['difformer-a']
    assert features['cell'](rows, ('exports',)) == '✓'
    path.write_text('<testsuites/>')
    with pytest.raises(ValueError, match='no drop-in tests'):
        features['results'](path)


def test_the_page_does_not_promise_what_tests_leave_out(features):
    """As far as it can be seen without running them."""
    tested = {
        ('test_contracts', f'{layer}-{name}'): True
        for layer, (_, profile, _) in contracts.LAYERS.items()
        for name, _ in contracts.conv_checks(profile)
        if (layer, name) not in contracts.EXCEPTIONS
    }
    expected = features['table'](tested).splitlines()
    page = (DOCS / 'features.md').read_text('utf-8')
    rows = re.findall(r'^\| .*', page, re.MULTILINE)
    assert rows[0] == expected[0]
    for row, line in zip(rows[1:], expected[2:], strict=True):
        layer = row.split(' | ')[0].removeprefix('| ')
        if features['LAYERS'][layer][0] == 'test_contracts':
            assert row == line
