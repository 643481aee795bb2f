import math

import pytest
import torch

from torch_energy_graph.nn.encoding.grid_positions import GridPositions


def test_waves_by_hand():
    table = GridPositions(2, 3, 8, 'sinusoidal')()
    assert table.shape == (6, 8)
    expected = [
        *(math.sin(1), math.sin(0.01), math.cos(1), math.cos(0.01)),
        *(math.sin(2), math.sin(0.02), math.cos(2), math.cos(0.02)),
    ]
    torch.testing.assert_close(table[5], torch.tensor(expected))
    # patches of one row share the first half, of one column the second
    assert torch.equal(table[3, :4], table[5, :4])
    assert torch.equal(table[2, 4:], table[5, 4:])


def test_waves_are_not_learned_nor_stored():
    positions = GridPositions(2, 2, 4, 'sinusoidal', cls_token=True)
    assert not list(positions.parameters())
    assert not positions.state_dict()
    assert not positions()[0].any()


@pytest.mark.parametrize('kind', ['learned', 'sinusoidal'])
@pytest.mark.parametrize('cls_token', [True, False])
def test_rows_and_columns_find_their_vector(kind, cls_token):
    positions = GridPositions(2, 3, 4, kind, cls_token)
    pos = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    first = int(cls_token)
    assert torch.equal(positions(pos), positions()[[5 + first, 1 + first]])
    pos[0] = -1
    if cls_token:
        assert torch.equal(positions(pos), positions()[[0, 2]])
        pos[0, 1] = 2
    with pytest.raises(ValueError, match='grid of 2 x 3 patches'):
        positions(pos)


def test_a_learned_table_starts_small():
    torch.manual_seed(0)
    positions = GridPositions(50, 50, 8)
    assert positions().std().item() == pytest.approx(0.002, rel=0.05)


@pytest.mark.parametrize('arguments', [{'kind': 'fourier'}, {'channels': 6}])
def test_wrong_arguments(arguments):
    given = {'channels': 8, 'kind': 'sinusoidal', **arguments}
    with pytest.raises(ValueError, match="'GridPositions'"):
        GridPositions(2, 2, **given)
