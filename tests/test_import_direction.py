"""Imports go down only; `__init__` and `typing` are outside the ladder."""

import ast
from pathlib import Path

import pytest

import torch_energy_graph

NAME = 'torch_energy_graph'
PACKAGE = Path(torch_energy_graph.__file__).parent

# A module may import from its own rank and from lower ones.
LADDER = [
    ['extras'],
    ['ops'],
    ['energies'],
    ['dynamics'],
    ['nn'],
    ['losses', 'metrics', 'train', 'data', 'datasets', 'transforms', 'loader'],
    ['detect', 'ood', 'distributed'],
    ['testing', 'plot'],
    ['bench'],
    ['cli'],
]
RANK = {part: rank for rank, parts in enumerate(LADDER) for part in parts}


def imported_modules(path, root):
    """Absolute dotted names imported anywhere in `path`."""
    parts = [root.name, *path.relative_to(root).with_suffix('').parts]
    package = parts[:-1]  # of `a/__init__.py` and of `a/b.py` it is `a`
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1]
            base = base if node.level else []
            base = '.'.join([*base, *filter(None, [node.module])])
            yield from (f'{base}.{alias.name}' for alias in node.names)


def part_of(module):
    """`nn` of `torch_energy_graph.nn.conv`; None of what is not ours."""
    name, _, rest = module.partition('.')
    return rest.partition('.')[0] if name == NAME else None


def violations(root):
    for path in sorted(root.rglob('*.py')):
        part = path.relative_to(root).with_suffix('').parts[0]
        for module in imported_modules(path, root):
            target = part_of(module)
            rank = RANK.get(target, -1)
            if part in RANK and target != part and rank > RANK[part]:
                yield f'{path.relative_to(root)} imports {module}'
            if part in ('__init__', 'typing') and target in RANK:
                yield f'{path.relative_to(root)} imports {module}'


def test_imports_go_down():
    assert list(violations(PACKAGE)) == []


def test_every_part_has_a_rank():
    parts = {p.relative_to(PACKAGE).parts[0] for p in PACKAGE.rglob('*.py')}
    parts = {part.removesuffix('.py') for part in parts}
    assert parts - {'__init__', 'typing'} <= set(RANK)


@pytest.mark.parametrize(
    'line',
    [
        'import torch_energy_graph.nn.conv',
        'from torch_energy_graph.nn import EnergyLayerNorm',
        'from torch_energy_graph import nn',
        'from .. import nn',
        'from ..nn.conv import EnergyAttentionConv',
        'def late():\n    from ..nn import EnergyLayerNorm',
    ],
)
def test_a_planted_violation_is_found(line, tmp_path):
    root = tmp_path / NAME
    for part, source in {
        'ops/graph.py': line,
        'cli/main.py': line + '\nfrom ..ops import graph',
        'nn/conv.py': 'import torch\nfrom ..ops.graph import GraphCache',
        'nn/__init__.py': 'from .conv import EnergyAttentionConv',
    }.items():
        (root / part).parent.mkdir(parents=True, exist_ok=True)
        (root / part).write_text(source)
    found = list(violations(root))
    assert len(found) == 1
    assert found[0].startswith('ops/graph.py imports torch_energy_graph.nn')
