"""Calibration of a GCN: cross-entropy, NG-EBM, temperature scaling.

A GCN without weight decay and dropout is trained for 150 epochs on the stored
splits, and taken as it ends. NG-EBM's weight beta is chosen on split 0, by
the negative log-likelihood of validation nodes among the weights that lose at
most one point of accuracy there, and taken for all splits; `NG-EBM released`
weighs gradient and variance as the released code does. Temperature scaling is
fitted on validation nodes; `CE, early` is the same training at its best epoch
by validation loss.
"""

import functools
import sys
from pathlib import Path

import torch

from torch_energy_graph.bench.objective import LossConfig, objective_of
from torch_energy_graph.bench.store import RunFolder, Unit
from torch_energy_graph.metrics import (
    brier_score,
    confidence_gap,
    negative_log_likelihood,
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
    final_and_tried,
    main_of,
    parser_of,
    run_two_stages,
    table,
    weights_of,
)

DATASETS = ('chameleon_filtered', 'actor')
TRIED = ('CE', *(f'NG-EBM {beta}' for beta in (0.1, 0.3, 0.5, 0.7)))
ALWAYS = ('CE', 'NG-EBM released')
NETWORK = NETWORKS['GCN, plain']
MEASURES = ('accuracy', 'ece', 'ece_mid', 'nll', 'brier', 'gap')
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
        'ece': top_label_calibration_error(y, prob),
        'ece_mid': top_label_calibration_error(y, prob, confidence='mid'),
        'nll': negative_log_likelihood(y, prob),
        'brier': brier_score(y, prob),
        'gap': confidence_gap(y, prob),
    }


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
        final, tried = final_and_tried(ours)
        yield f'## {dataset}'
        yield table(final, ('method',), MEASURES)
        if tried:
            chosen = next(r['beta'] for r in final if r['method'] == 'NG-EBM')
            yield f'Beta is {chosen}, chosen at split 0:'
            columns = ('val_accuracy', 'val_nll', *MEASURES)
            yield table(tried, ('beta',), columns)


def main():
    parser = parser_of(__doc__, 'calibration_graph')
    parser.add_argument('--splits', type=int, default=10, help='how many')
    args = parser.parse_args()
    epochs = 3 if args.small else NETWORK.epochs

    def unit_of(name, method, split):
        params = {'epochs': epochs}
        return Unit(name, method, 'calibration', split, split, params)

    units = run_two_stages(
        RunFolder(args.runs),
        args.datasets or DATASETS,
        unit_of,
        TRIED,
        ALWAYS,
        1 if args.small else args.splits,
        work,
    )
    if units is None:
        return 130
    title = 'Calibration of node classifiers'
    return main_of(args, units, work, report, title)


if __name__ == '__main__':
    sys.exit(main())
