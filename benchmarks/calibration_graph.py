"""Calibration of a GCN: cross-entropy, NG-EBM, temperature scaling.

A GCN without weight decay and dropout is trained for 150 epochs on the stored
splits, and taken as it ends. NG-EBM's weight beta is chosen for every split,
by the negative log-likelihood of its validation nodes among the weights that
lose at most one point of accuracy there; `NG-EBM released` weighs gradient and
variance as the released code does. Temperature scaling is
fitted on validation nodes; `CE, early` is the same training at its best epoch
by validation loss.

A split has few test nodes, and then even perfect probabilities have a large
calibration error. So there are two columns more: `ece_least`, the mean error
where labels are drawn from the probabilities themselves, and `pooled`, the
error of the test nodes of all splits together.
"""

import functools
import sys
from pathlib import Path

import numpy as np
import torch

from torch_energy_graph.bench.objective import LossConfig, objective_of
from torch_energy_graph.bench.store import Unit
from torch_energy_graph.metrics import (
    brier_score,
    confidence_gap,
    negative_log_likelihood,
    reliability_curve,
    top_label_calibration_error,
)
from torch_energy_graph.ood import fit_temperature

sys.path.insert(0, str(Path(__file__).parent))
from _ood_graphs import (
    NETWORKS,
    cross_entropy_of,
    load_graph,
    masks_of,
    trainer_of,
)
from _ood_run import (
    chosen_beta,
    main_of,
    parser_of,
    table,
    weights_of,
)

DATASETS = ('chameleon_filtered', 'actor')
TRIED = tuple(f'NG-EBM {beta}' for beta in (0.1, 0.3, 0.5, 0.7))
METHODS = ('CE', *TRIED, 'NG-EBM released')
NETWORK = NETWORKS['GCN, plain']
MEASURES = ('accuracy', 'ece', 'ece_least', 'ece_mid', 'nll', 'brier', 'gap')
BINS, DRAWS = 20, 100
graph_of = functools.cache(functools.partial(load_graph, scale_rows=False))


def work(unit):
    """Rows of one training; three for cross-entropy."""
    data = graph_of(unit.dataset)
    masks = masks_of(unit.dataset, data, unit.split)
    objective = cross_entropy_of
    if unit.model != 'CE':
        weights = weights_of(unit.model)
        objective = objective_of(LossConfig('ngebm', *weights))
    trainer = trainer_of(
        NETWORK,
        data,
        masks,
        unit.seed,
        objective,
        epochs=unit.params['epochs'],
    )

    @torch.no_grad()
    def logits():
        return trainer.model.eval()(**NETWORK.inputs(data))

    def row(method, logits, epoch, **about):
        val, test = (measures(logits[m], data.y[m]) for m in masks[1:])
        chosen_by = {f'val_{k}': val[k] for k in ('accuracy', 'nll')}
        about = {'epoch': epoch, **about}
        return {'method': method, **test, **chosen_by, **about}

    while not trainer.finished:
        trainer.run_epoch()
    last = logits()
    if unit.model == 'NG-EBM released':
        return [row(unit.model, last, trainer.epoch)]
    if unit.model != 'CE':
        return [row('NG-EBM', last, trainer.epoch, beta=weights[0])]
    scale = fit_temperature(last[masks[1]], data.y[masks[1]])
    trainer.finish()  # back to the least validation loss
    return [
        row('CE', last, trainer.epoch),
        row('CE, temperature', last / scale, trainer.epoch, temperature=scale),
        row('CE, early', logits(), trainer.best_epoch),
    ]


def measures(logits, y):
    prob, y = logits.double().softmax(-1).numpy(), y.numpy()
    return {
        'accuracy': float((prob.argmax(1) == y).mean()),
        'ece': top_label_calibration_error(y, prob, BINS),
        'ece_least': least_error(prob),
        'ece_mid': top_label_calibration_error(y, prob, confidence='mid'),
        'nll': negative_log_likelihood(y, prob),
        'brier': brier_score(y, prob),
        'gap': confidence_gap(y, prob),
        '_bins': bins_of(y, prob),
    }


def least_error(prob):
    """Mean calibration error of labels that are drawn from `prob`."""
    draw = np.random.default_rng(0)
    top, confidence = prob.argmax(1), prob.max(1)
    other = (top + 1) % prob.shape[1]  # any wrong class
    errors = [
        top_label_calibration_error(
            np.where(draw.random(len(prob)) < confidence, top, other),
            prob,
            BINS,
        )
        for _ in range(DRAWS)
    ]
    return float(np.mean(errors))


def bins_of(y, prob):
    """Number, rows, and rows times (accuracy - confidence), of every bin."""
    curve = reliability_curve(y, prob, BINS)
    excess = curve.count * (curve.accuracy - curve.confidence)
    number = np.rint(curve.lower * BINS).astype(int)
    columns = number, curve.count.astype(int), excess
    return [
        list(row) for row in zip(*(c.tolist() for c in columns), strict=True)
    ]


def pooled_error(rows):
    """Calibration error of the nodes of several rows together."""
    count, excess = 0, np.zeros(BINS)
    for row in rows:
        for number, size, value in row['_bins']:
            count += size
            excess[number] += value
    return float(np.abs(excess).sum() / count)


def report(rows):
    """One table by dataset, and what choosing beta has seen."""
    yield (
        'Test nodes; accuracy, ECE (20 bins; mean confidence, and mid-points '
        'as `ece_mid`), Brier score and mean confidence minus accuracy '
        '(`gap`) in percent, NLL times 100; mean ± sample deviation over '
        'splits, which share nodes.'
    )
    for dataset in dict.fromkeys(row['dataset'] for row in rows):
        ours = [row for row in rows if row['dataset'] == dataset]
        betas = {row['seed']: chosen_beta(ours, row['seed']) for row in ours}
        final = [
            row
            for row in ours
            if row['method'] != 'NG-EBM' or row['beta'] == betas[row['seed']]
        ]
        yield f'## {dataset}'
        yield table(final, ('method',), MEASURES)
        yield pooled_table(final)
        tried = [row for row in ours if row['method'] == 'NG-EBM']
        if tried:
            chosen = ', '.join(str(betas[seed]) for seed in sorted(betas))
            yield f'Betas chosen, by split: {chosen}. All of them:'
            columns = ('val_accuracy', 'val_nll', *MEASURES)
            yield table(tried, ('beta',), columns)


def pooled_table(rows):
    """Calibration errors over all splits, beside those of cross-entropy."""
    methods = list(dict.fromkeys(row['method'] for row in rows))
    found = {
        method: pooled_error([r for r in rows if r['method'] == method])
        for method in methods
    }
    lines = ['| method | pooled ECE | share of CE |', '|---|---:|---:|']
    for method, error in found.items():
        share = f'{error / found["CE"]:.3f}' if 'CE' in found else '-'
        lines.append(f'| {method} | {100 * error:.1f} | {share} |')
    return '\n'.join(lines)


def main():
    parser = parser_of(__doc__, 'calibration_graph')
    parser.add_argument('--splits', type=int, default=10, help='how many')
    args = parser.parse_args()
    epochs = 3 if args.small else NETWORK.epochs
    params = {'epochs': epochs, 'draws': DRAWS}
    units = [
        Unit(name, method, 'calibration', split, split, params)
        for name in args.datasets or DATASETS
        for method in METHODS
        for split in range(1 if args.small else args.splits)
    ]
    title = 'Calibration of node classifiers'
    return main_of(args, units, work, report, title)


if __name__ == '__main__':
    sys.exit(main())
