"""The picture of a ranking; needs matplotlib (extra ``plot``)."""

from pathlib import Path

from torch_energy_graph.bench.ranking import Ranking

__all__ = ['draw']


def draw(ranking: Ranking, path: Path) -> None:
    """Write the critical-difference diagram as SVG; needs matplotlib."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names, count = list(ranking.ranks), len(ranking.ranks)
    half = (count + 1) // 2
    groups = ranking.groups()
    step, top = 0.28, 0.9 + 0.14 * len(groups)
    height = top + step * half
    figure = Figure(figsize=(8, height))
    axes = figure.add_axes((0.2, 0, 0.6, 1))
    axes.set_xlim(0.5, count + 0.5)
    axes.set_ylim(height, 0)
    axes.axis('off')
    axes.hlines(0.6, 1, count, color='black', linewidth=1)
    for tick in range(1, count + 1):
        axes.vlines(tick, 0.54, 0.6, color='black', linewidth=1)
        axes.text(tick, 0.5, str(tick), ha='center', va='bottom', fontsize=8)
    reach = min(ranking.critical, count - 1)
    axes.hlines(0.15, 1, 1 + reach, color='black', linewidth=2)
    axes.text(
        1 + reach,
        0.15,
        f'  CD = {ranking.critical:.2f}',
        va='center',
        fontsize=8,
    )
    for line, (first, last) in enumerate(groups):
        ends = ranking.ranks[first] - 0.05, ranking.ranks[last] + 0.05
        axes.hlines(0.74 + 0.14 * line, *ends, color='black', linewidth=3)
    for place, name in enumerate(names):
        left = place < half
        y = top + step * (place if left else count - 1 - place)
        x, edge = ranking.ranks[name], 0.6 if left else count + 0.4
        axes.plot([x, x, edge], [0.6, y, y], color='gray', linewidth=0.8)
        axes.text(
            edge,
            y,
            f'{name}  {x:.2f} ' if left else f' {x:.2f}  {name}',
            ha='right' if left else 'left',
            va='center',
            fontsize=9,
        )
    # the same ranks give the same bytes
    with rc_context({'svg.hashsalt': 'teg', 'svg.fonttype': 'none'}):
        figure.savefig(path, format='svg', metadata={'Date': None})
