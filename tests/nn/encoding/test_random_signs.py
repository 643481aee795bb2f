import torch

from torch_energy_graph.nn.encoding.random_signs import RandomSigns


def test_whole_eigenvectors_of_a_graph_flip():
    torch.manual_seed(0)
    signs = RandomSigns()
    batch = torch.tensor([1, 0, 1, 3, 0])  # unsorted, graph 2 is empty
    pe = torch.rand(5, 200) + 0.5
    flipped = signs(pe, batch) / pe
    torch.testing.assert_close(flipped.abs(), torch.ones(5, 200))
    assert torch.equal(flipped[0], flipped[2])
    assert torch.equal(flipped[1], flipped[4])
    for other in (flipped[1], flipped[3]):  # graphs differ
        assert 50 < (flipped[0] != other).sum() < 150
    assert not torch.equal(signs(pe, batch) / pe, flipped)  # calls differ


def test_one_graph_and_evaluation():
    signs, pe = RandomSigns(), torch.rand(4, 30, dtype=torch.double) + 0.5
    flipped = signs(pe)
    assert flipped.dtype == torch.double
    assert ((flipped / pe).round() == (flipped / pe).round()[:1]).all()
    assert signs.eval()(pe) is pe
    assert signs.train()(pe[:0], torch.empty(0, dtype=torch.long)).numel() == 0
