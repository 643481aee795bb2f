import json

import pytest
import torch

from tests.detect.graphs import fraud_graph
from torch_energy_graph.detect.inputs import NodeInputs, aggregated


def test_means_of_a_path_by_hand():
    data = fraud_graph(4)
    data.x = torch.tensor([[1.0], [2.0], [4.0], [8.0]])
    data.edge_index = torch.tensor([[0, 2, 1], [1, 1, 2]])
    assert aggregated(data).tolist() == [
        [1.0, 0.0, 0.0],
        [2.0, 2.5, 1.0],
        [4.0, 2.0, 2.5],
        [8.0, 0.0, 0.0],
    ]


@pytest.mark.parametrize(
    'encoding', ['raw', 'standard', 'normal', 'piecewise']
)
def test_a_restored_encoding_is_equal_to_the_last_bit(encoding):
    data = fraud_graph()
    fitted = NodeInputs(2, encoding, 8).learn(data, data.train_mask)
    stored = json.loads(json.dumps(fitted.state(), allow_nan=False))
    again = NodeInputs(2, encoding, 8).restore(stored, 4)
    assert torch.equal(fitted(data).x, again(data).x)
    assert again.origin(4).tolist() == fitted.origin(4).tolist()
    assert fitted.origin(4).numel() == fitted(data).x.size(1)


def test_bins_belong_to_their_feature():
    data = fraud_graph()
    inputs = NodeInputs(1, 'piecewise', 3).learn(data, data.train_mask)
    # three features of three bins and a constant one, then their means
    one = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    origin = inputs.origin(4).tolist()
    assert origin[:19] == one + one[:9]
    assert {*origin[19:]} == {3}  # of the mean of a constant
