import pytest
import torch

from torch_energy_graph.energies.sets import set_pairs


@pytest.mark.parametrize('by', ['index', 'ptr'])
def test_pairs_are_all_of_a_set(by):
    state_index = torch.tensor([2, 0, 0, 1, 2])
    index = torch.tensor([0, 0, 2, 2, 2])  # set 1 has no patterns
    if by == 'index':
        index = index[torch.tensor([3, 0, 4, 1, 2])]
        pairs = set_pairs(state_index, index=index)
    else:
        pairs = set_pairs(state_index, ptr=torch.tensor([0, 2, 2, 5]))
    same = state_index.unsqueeze(1) == index
    assert {tuple(pair) for pair in pairs.t().tolist()} == {
        tuple(pair) for pair in same.nonzero().tolist()
    }
    assert pairs.size(1) == int(same.sum())
    assert (pairs[0].diff() >= 0).all()


def test_no_states_and_no_patterns():
    none = torch.zeros(0).long()
    assert set_pairs(none, index=torch.tensor([0, 1])).shape == (2, 0)
    assert set_pairs(torch.tensor([0, 1]), index=none).shape == (2, 0)
    assert set_pairs(none, index=none).shape == (2, 0)


def test_errors():
    index = torch.tensor([0, 1])
    with pytest.raises(ValueError, match='exactly one'):
        set_pairs(index)
    with pytest.raises(IndexError, match=r"'state_index' names set 1"):
        set_pairs(index, ptr=torch.tensor([0, 2]))
    with pytest.raises(IndexError, match=r"'index' names set -1"):
        set_pairs(index, index=-index)
