"""Image classifiers: cross-entropy, NG-EBM and JEM, at a small scale.

A Wide-ResNet-10-1 without batch normalisation is trained on 500 images;
accuracy, calibration, AUROC against other images and against means of two
images, accuracy under PGD, CPU time per step, and the share of runs that
diverge. NG-EBM's weight beta is chosen at seed 0 on validation images. MNIST
and CIFAR-10 are pooled to half their sides, and the images of CIFAR-10 went
through JPEG: the rows are no figures for these sets.
"""

import functools
import sys
from pathlib import Path

from torch_energy_graph.bench.store import RunFolder, Unit

sys.path.insert(0, str(Path(__file__).parent))
from _ood_images import (
    L2,
    LINF,
    PGD_STEPS,
    SCORES,
    images_of,
    measured,
    train,
)
from _ood_run import (
    final_and_tried,
    main_of,
    parser_of,
    run_two_stages,
    table,
    weights_of,
)

TRIED = ('CE', *(f'NG-EBM {beta}' for beta in (0.02, 0.1, 0.5)))
ALWAYS = ('CE', 'NG-EBM released', 'JEM 20')
# numbers of training, validation and test images, and pooled pixels
SIZES = {
    'digits': (500, 200, 360, 1),
    'mnist': (500, 500, 1000, 2),
    'cifar10': (500, 100, 250, 2),
}
EPOCHS = 30
ATTACKED = 50  # images
images = functools.cache(images_of)


def work(unit):
    """Rows of one training."""
    params = unit.params
    parts = images(unit.dataset, *params['images'])
    method = unit.model
    about = {}
    if method in TRIED[1:]:
        method, about = 'NG-EBM', {'beta': weights_of(method)[0]}
    try:
        model, cost = train(unit.model, parts, params['epochs'], unit.seed)
    except FloatingPointError:
        return [{'method': method, **about, 'diverged': 1.0}]
    rows = measured(method, model, parts, params['attacked'])
    rows[0].update(about, diverged=0.0, step_ms=cost)
    return rows


def report(rows):
    """Calibration, separation and robustness of every set of images."""
    yield (
        'Percent, mean ± sample deviation over seeds; NLL times 100, '
        '`step_ms` CPU milliseconds. Means leave diverged runs out. '
        f'`linf` and `l2`: accuracy under {PGD_STEPS} steps of PGD from one '
        f'random start, on {ATTACKED} test images; radii for pixels in '
        '[0, 1]. `CE, temperature` has the other columns of `CE`.'
    )
    for dataset in dict.fromkeys(row['dataset'] for row in rows):
        ours = [row for row in rows if row['dataset'] == dataset]
        ours, tried = final_and_tried(ours)
        nets = [row for row in ours if 'diverged' in row]
        yield f'## {dataset}'
        yield table(
            ours, ('method',), ('accuracy', 'ece', 'ece_mid', 'nll', 'brier')
        )
        yield table(nets, ('method',), ('diverged',), digits=0)
        yield table(nets, ('method',), ('step_ms',), scale=1)
        for name in ('interpolated', 'fashion'):
            columns = [f'{name}_{kind}' for kind in SCORES]
            yield table(nets, ('method',), columns)
        for norm, radii in (('linf', LINF), ('l2', L2)):
            columns = [f'{norm}_{radius:.3g}' for radius in radii]
            yield table(nets, ('method',), columns)
        if tried:
            yield 'Choosing beta at seed 0:'
            columns = ('val_accuracy', 'val_nll', 'accuracy', 'ece', 'nll')
            yield table(tried, ('beta',), columns)


def main():
    parser = parser_of(__doc__, 'ood_images')
    parser.add_argument('--seeds', type=int, default=3, help='how many')
    args = parser.parse_args()

    def unit_of(name, method, seed):
        params = {
            'images': SIZES[name],
            'epochs': EPOCHS,
            'attacked': ATTACKED,
        }
        if args.small:
            sizes = (64, 50, 50, SIZES[name][-1])
            params = {'images': sizes, 'epochs': 1, 'attacked': 4}
        return Unit(name, method, 'images', 0, seed, params)

    units = run_two_stages(
        RunFolder(args.runs),
        args.datasets or list(SIZES),
        unit_of,
        TRIED,
        ALWAYS,
        1 if args.small else args.seeds,
        work,
    )
    if units is None:
        return 130
    title = 'Image classifiers and their energies'
    return main_of(args, units, work, report, title)


if __name__ == '__main__':
    sys.exit(main())
