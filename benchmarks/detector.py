"""The fraud detector as it comes: scores beside the benchmark's row `et`.

`EnergyFraudDetector` with its default settings on the splits of the fraud
benchmark, where `et` was tuned on split 0. Calibration is fitted on validation
nodes, by each method, and measured on test nodes. `ece_least` is what
perfectly calibrated scores have: the mean ECE of the calibrated probabilities
against labels drawn from them.

    python benchmarks/detector.py
"""

import csv
import sys
from pathlib import Path

from torch_energy_graph.bench.protocol import get_protocol
from torch_energy_graph.bench.registry import load_task
from torch_energy_graph.bench.store import Unit
from torch_energy_graph.detect import (
    EnergyFraudDetector,
    fit_calibration,
    probability_quality,
)
from torch_energy_graph.detect.held_out import expected_ece
from torch_energy_graph.metrics import auprc

sys.path.insert(0, str(Path(__file__).parent))
from _ood_run import main_of, parser_of, table

PROTOCOLS = {'tolokers': 'official', 'yelpchi_rur': 'et-40pct'}
METHODS = ('sigmoid', 'temperature', 'isotonic')
SMALL = {'epochs': 2, 'ensemble': 1, 'hidden_channels': 8, 'heads': 2}


def work(unit):
    """Rows of one detector: as trained, and by every calibration."""
    task = load_task(unit.dataset)
    split = get_protocol(unit.protocol).split(task, unit.split)
    y = task.data.y.cpu().numpy()
    detector = EnergyFraudDetector(
        calibration=None, random_state=unit.seed, **unit.params
    )
    detector.fit(task.data, split.train, split.val)
    prob = detector.predict_proba(task.data)[:, 1]
    val, test = split.val.numpy(), split.test.numpy()
    rows = [measures('none', y[test], prob[test])]
    for method in METHODS:
        calibration = fit_calibration(method, y[val], prob[val])
        rows.append(measures(method, y[test], calibration(prob[test])))
    return rows


def measures(method, y, prob):
    """AUPRC, quality of the probabilities, and the least ECE."""
    return {
        'calibration': method,
        'auprc': auprc(y, prob),
        **probability_quality(y, prob),
        'ece_least': expected_ece(prob),
    }


def benchmark_scores(path):
    """AUPRC of the benchmark's `et`, by data set, protocol and split."""
    if not path.exists():
        return {}
    with open(path, newline='', encoding='utf-8') as file:
        return {
            (row['dataset'], row['protocol'], int(row['split'])): float(
                row['test_auprc']
            )
            for row in csv.DictReader(file)
            if row['model'] == 'et' and row['test_auprc']
        }


def report(rows):
    """Scores beside `et`, and calibration."""
    theirs = benchmark_scores(Path(__file__).parent / 'results' / 'fraud.csv')
    for row in rows:
        key = row['dataset'], row['protocol'], row['split']
        row['et'] = theirs.get(key)
    first = [row for row in rows if row['calibration'] == 'none']
    yield 'Test nodes; mean ± sample deviation over splits, which share nodes.'
    yield (
        '## Scores\n\nAUPRC in percent of the detector with default settings, '
        "and of the benchmark's row `et`, whose settings were chosen on "
        'validation nodes of split 0.'
    )
    yield table(first, ('dataset', 'protocol'), ('auprc', 'et'), digits=2)
    yield (
        '## Calibration\n\nBinary ECE (15 bins of equal mass), `ece_least`, '
        'Brier score and NLL, times 100. Isotonic regression makes ties, '
        'which changes the AUPRC.'
    )
    columns = ('auprc', 'ece', 'ece_least', 'brier', 'nll')
    yield table(rows, ('dataset', 'calibration'), columns, digits=2)


def main():
    parser = parser_of(__doc__, 'detector')
    parser.add_argument('--splits', type=int, default=10, help='how many')
    args = parser.parse_args()
    names = args.datasets or list(PROTOCOLS)
    units = [
        Unit(
            name,
            'detector',
            PROTOCOLS.get(name, 'et-40pct'),
            split,
            0,
            SMALL if args.small else {},
        )
        for name in names
        for split in range(1 if args.small else args.splits)
    ]
    title = 'The fraud detector with default settings'
    return main_of(args, units, work, report, title)


if __name__ == '__main__':
    sys.exit(main())
