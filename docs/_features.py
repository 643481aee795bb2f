"""Writes the table of features.md from the results of the drop-in tests.

    make features

runs the tests with ``--junitxml`` and calls this file with what they wrote.
"""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

PAGE = Path(__file__).parent / 'features.md'
MARKS = '<!-- begin table -->', '<!-- end table -->'
#: Rows: layer, and the tests of it (module, begin of the id).
LAYERS = {
    'EnergyTransformerConv': ('test_contracts', 'transformer'),
    'EnergyAttentionConv': ('test_contracts', 'attention'),
    'HopfieldNetwork': ('test_contracts', 'memory'),
    'HopfieldConv': ('test_hopfield_conv', ''),
    'HopfieldMemory': ('test_hopfield_memory', ''),
    'DIFFormerConv': ('test_contracts', 'difformer'),
    'DiffusionAttention': ('test_contracts', 'all_pairs'),
    'EnergyTransformer': ('test_energy_transformer_hosts', ''),
    'PyG GCNConv': ('test_contracts', 'pyg-gcn'),
    'PyG TransformerConv': ('test_contracts', 'pyg-transformer'),
}
#: Columns, and the checks that must all have passed.
FEATURES = {
    'sparse layouts': ('sparse_csr', 'sparse_csc', 'sparse_coo'),
    '`EdgeIndex`': ('sorted_edge_index',),
    '`GraphCache`': ('graph_cache',),
    'degenerate graphs': ('degenerate_graphs', 'edge_order'),
    'half types, autocast': ('dtypes', 'autocast'),
    '`compile`': ('compiles', 'compiles_dynamic'),
    '`export`': ('exports',),
    'gradcheck': ('gradients',),
    '`to_hetero`': ('hetero_conv', 'hetero_transform'),
    '`GNNExplainer`': ('gnn_explainer',),
    '`AttentionExplainer`': ('attention_explainer',),
}
YES, SOME, NO = '✓', '(✓)', '\N{EN DASH}'
CASE = re.compile(r'test_drop_in\[(?P<id>[^\]]+)\]')


def results(path: Path) -> dict[tuple[str, str], bool]:
    """Whether each drop-in test passed, by module and id.

    Raises:
        ValueError: If the file holds no such test.
    """
    found = {}
    for case in ElementTree.parse(path).iter('testcase'):
        match = CASE.fullmatch(case.get('name', ''))
        if match is not None:
            module = case.get('classname', '').rpartition('.')[2]
            failed = {child.tag for child in case} & {
                'failure',
                'error',
                'skipped',
            }
            found[module, match['id']] = not failed
    if not found:
        raise ValueError(f"'{path}' holds no drop-in tests")
    return found


def variants(
    found: dict[tuple[str, str], bool], module: str, begin: str
) -> dict[str, dict[str, bool]]:
    """Results of every variant of a layer, by check."""
    out: dict[str, dict[str, bool]] = {}
    for (where, name), passed in found.items():
        if where == module and name.startswith(begin):
            variant, _, check = name.rpartition('-')
            out.setdefault(variant, {})[check] = passed
    return out


def cell(tests: dict[str, dict[str, bool]], checks: tuple[str, ...]) -> str:
    """All variants passed all checks, some did, or none.

    A variant that is tested by no check of the row stands aside; a check that
    is missing where another one of the row is there was not promised.
    """
    asked = [
        all(variant.get(check, False) for check in checks)
        for variant in tests.values()
        if len(variant) > len(FEATURES) or checks[0] in variant
    ]
    if not any(asked):
        return NO
    return YES if all(asked) else SOME


def table(found: dict[tuple[str, str], bool]) -> str:
    """The table, in Markdown."""
    lines = [
        '| layer | ' + ' | '.join(FEATURES) + ' |',
        '|---' + '|:-:' * len(FEATURES) + '|',
    ]
    for layer, (module, begin) in LAYERS.items():
        tests = variants(found, module, begin)
        cells = [cell(tests, checks) for checks in FEATURES.values()]
        lines.append(f'| {layer} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


def main(path: str) -> None:
    """Replace the table of the page."""
    text = PAGE.read_text(encoding='utf-8')
    head, rest = text.split(MARKS[0])
    _, tail = rest.split(MARKS[1])
    new = '\n'.join([MARKS[0], '', table(results(Path(path))), '', MARKS[1]])
    PAGE.write_text(head + new + tail, encoding='utf-8')


if __name__ == '__main__':
    main(sys.argv[1])
