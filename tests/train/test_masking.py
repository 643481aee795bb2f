import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_energy_graph.train.masking import BoxMasking, ScatterMasking


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_share_of_the_paper():
    masks = ScatterMasking(100 / 196, 0.1)(5, (14, 14), generator())
    assert masks.loss.sum(1).tolist() == [100] * 5
    assert masks.hidden.sum(1).tolist() == [90] * 5
    assert not (masks.hidden & ~masks.loss).any()


@given(st.floats(0.01, 1), st.floats(0, 0.99), st.integers(1, 5))
def test_something_is_always_hidden(ratio, visible, rows):
    masks = ScatterMasking(ratio, visible)(3, (rows, 4), generator())
    assert not (masks.hidden & ~masks.loss).any()
    assert masks.hidden.any(1).all()
    counts = masks.loss.sum(1)
    assert (counts == counts[0]).all()


def test_every_patch_is_hidden_as_often():
    masks = ScatterMasking(0.5, 0.0)(4000, (3, 3), generator())
    share = masks.hidden.double().mean(0)  # four of nine
    assert (share - 4 / 9).abs().max() < 0.03  # four deviations
    assert torch.equal(masks.loss, masks.hidden)


def test_a_box_is_a_box():
    masks = BoxMasking(2, 3)(200, (4, 5), generator())
    box = masks.hidden.view(200, 4, 5)
    assert torch.equal(masks.loss, masks.hidden)
    assert (box.any(2).sum(1) == 2).all()
    assert (box.any(1).sum(1) == 3).all()
    assert (box.sum((1, 2)) == 6).all()
    corners = box.flatten(1).double().argmax(1)  # of the upper left
    assert set(corners.tolist()) == {
        r * 5 + c for r in range(3) for c in (0, 1, 2)
    }


def test_seeds_decide():
    masking = ScatterMasking()
    first, same, other = (masking(2, (5, 5), generator(s)) for s in (1, 1, 2))
    assert torch.equal(first.hidden, same.hidden)
    assert not torch.equal(first.hidden, other.hidden)


def test_wrong_shares():
    with pytest.raises(ValueError, match="0 < 'ratio' <= 1"):
        ScatterMasking(0.0)
    with pytest.raises(ValueError, match="'visible' < 1"):
        ScatterMasking(0.5, 1.0)
    with pytest.raises(ValueError, match='rectangle within 4 x 4'):
        BoxMasking(5, 1)(1, (4, 4), generator())
