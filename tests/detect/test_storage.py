import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.detect.graphs import SMALL
from torch_energy_graph.detect import EnergyFraudDetector

OTHER = """
import sys
import numpy as np
from tests.detect.graphs import SMALL, fraud_graph
from torch_energy_graph.detect import EnergyFraudDetector, members

graph, out = fraud_graph(relations=2, edge_dim=2), sys.argv[1]
loaded = EnergyFraudDetector.load(out + '/model')
np.save(out + '/scores.npy', loaded.predict_proba(graph))

add = members.Checkpoint.add
def add_and_die(self, model, result):
    add(self, model, result)
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
members.Checkpoint.add = add_and_die
EnergyFraudDetector(**SMALL).fit(graph, checkpoint=out + '/fit')
"""


def test_another_process_scores_alike_and_a_killed_fit_goes_on(
    fitted, graph, tmp_path
):
    fitted.save(tmp_path / 'model')
    command = [sys.executable, '-c', OTHER, str(tmp_path)]
    # sums of another number of threads differ in their last bits
    threads = {'OMP_NUM_THREADS': str(torch.get_num_threads())}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **threads},
    )
    assert done.returncode == -9, done.stderr
    expected = fitted.predict_proba(graph)
    assert np.array_equal(np.load(tmp_path / 'scores.npy'), expected)

    detector = EnergyFraudDetector(**SMALL)
    detector.fit(graph, checkpoint=tmp_path / 'fit')
    assert np.array_equal(detector.predict_proba(graph), expected)
    assert detector.history_ == fitted.history_
    assert detector.threshold_ == fitted.threshold_
    # all networks are there now, and the settings are those of the folder
    again = EnergyFraudDetector(**SMALL).fit(
        graph, checkpoint=tmp_path / 'fit'
    )
    assert np.array_equal(again.predict_proba(graph), expected)
    with pytest.raises(ValueError, match='another folder'):
        EnergyFraudDetector(**{**SMALL, 'lr': 0.1}).fit(
            graph, checkpoint=tmp_path / 'fit'
        )


def test_a_round_trip_keeps_every_bit(fitted, graph, tmp_path):
    fitted.save(tmp_path)
    loaded = EnergyFraudDetector.load(tmp_path)
    for method in ('predict_proba', 'predict', 'score_samples', 'predict_std'):
        one, two = (getattr(d, method)(graph) for d in (fitted, loaded))
        assert np.array_equal(one, two)
    assert loaded.get_params() == fitted.get_params()
    assert loaded.validation_ == fitted.validation_
    assert loaded.history_ == fitted.history_
    loaded.save(tmp_path)  # over the old files
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [
        '.json',
        '.safetensors',
    ]


def test_damaged_and_changed_files_are_refused(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match='no detector'):
        EnergyFraudDetector.load(tmp_path)
    fitted.save(tmp_path)
    (weights,) = tmp_path.glob('*.safetensors')
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(ValueError, match='not the file'):
        EnergyFraudDetector.load(tmp_path)
    fitted.save(tmp_path)
    state = tmp_path / 'state.json'
    values = json.loads(state.read_text())
    values['values']['version'] = 99
    state.write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r'detector 99, expected .* 1'):
        EnergyFraudDetector.load(tmp_path)
    state.write_text('{"tensors": 3}')
    with pytest.raises(ValueError, match='no state'):
        EnergyFraudDetector.load(tmp_path)
