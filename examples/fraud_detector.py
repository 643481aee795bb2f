"""From two CSV files to decisions, reasons and a folder to deploy.

python examples/fraud_detector.py FOLDER   # made-up tables, if it has none
"""

import runpy
import sys
from pathlib import Path

import pandas as pd

from torch_energy_graph.data import from_folder, from_pandas
from torch_energy_graph.detect import AlertBudget, EnergyFraudDetector


def main(folder):
    if not (folder / 'nodes.csv').exists():
        own_csv = runpy.run_path(str(Path(__file__).with_name('own_csv.py')))
        own_csv['write_tables'](folder)
    table = from_folder(folder)

    detector = EnergyFraudDetector(
        hidden_channels=16,
        epochs=20,
        ensemble=2,
        threshold=AlertBudget(0.1),  # a tenth of the accounts
    )
    detector.fit(table, checkpoint=folder / 'fit')
    print(detector.validation_)

    scores = detector.score_table(table)
    worst = scores.sort_values('probability', ascending=False).head(5)
    print(worst.to_string(index=False))
    reasons = detector.explain(table, worst['id'].iloc[0], top=3)
    print(reasons.neighbor_table().to_string(index=False))
    print(reasons.feature_table().head(3).to_string(index=False))

    detector.save(folder / 'model')
    later = EnergyFraudDetector.load(folder / 'model')
    new = pd.DataFrame({'id': ['new-1'], 'amount': [990.0], 'country': 'PL'})
    edges = pd.DataFrame({'source': ['new-1'], 'target': worst['id'].iloc[:1]})
    edges['type'] = 'pays'
    layout = later.preprocessing_.layout_.for_scoring()
    grown = from_pandas(new, edges, layout, base=table)
    print(later.score_table(grown).tail(1).to_string(index=False))


if __name__ == '__main__':
    main(Path(sys.argv[1]))
