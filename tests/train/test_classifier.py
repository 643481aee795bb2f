import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from torch_geometric.data import Data
from torch_geometric.nn import GCN, GCNConv

from torch_energy_graph.train import ClassifierTrainer, TrainOptions


def graph(seed=0):
    gen = torch.Generator().manual_seed(seed)
    y = torch.arange(3).repeat(20)
    ends = torch.randint(60, (2, 240), generator=gen)
    return Data(
        x=torch.eye(3)[y] + torch.randn(60, 3, generator=gen),
        edge_index=ends[:, y[ends[0]] == y[ends[1]]],
        y=y,
    )


MASKS = (torch.arange(60) % 4 == 0, torch.arange(60) % 4 == 1)


def trainer_of(data=None, masks=MASKS, predict=None, **options):
    torch.manual_seed(0)
    model = GCN(3, 8, num_layers=2, out_channels=3, dropout=0.3)
    options = TrainOptions(**{'epochs': 12, **options})
    return ClassifierTrainer(model, data or graph(), *masks, options, predict)


def test_the_steps_are_those_of_a_plain_loop():
    data, (train, val) = graph(), MASKS
    trainer = trainer_of(weight_decay=0.01, clip_norm=0.5)
    torch.manual_seed(0)
    model = GCN(3, 8, num_layers=2, out_channels=3, dropout=0.3)
    adam = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.01)
    torch.manual_seed(0)
    result = trainer.fit()
    expected, accuracies = [], []
    for _ in range(12):
        model.train()
        adam.zero_grad()
        out = model(data.x, data.edge_index)
        loss = cross_entropy(out[train], data.y[train])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        adam.step()
        expected.append(loss.item())
        model.eval()
        guess = model(data.x, data.edge_index).argmax(-1)
        right = (guess == data.y)[val].double().mean()
        accuracies.append(right.item())
    found = [record['loss'] for record in result.history]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    found = [record['val_accuracy'] for record in result.history]
    assert found == accuracies
    assert result.best_epoch == 1 + int(np.argmax(accuracies))


def test_the_best_epoch_is_restored():
    trainer = trainer_of()
    kept = {}

    def keep(record):
        kept[record['epoch']] = {
            k: v.clone() for k, v in trainer.model.state_dict().items()
        }

    result = trainer.fit(keep)
    state = trainer.model.state_dict()
    torch.testing.assert_close(state, kept[result.best_epoch])
    data = graph()
    out = trainer.model(data.x, data.edge_index).double().softmax(-1)
    np.testing.assert_allclose(result.scores, out.detach(), atol=1e-12)


@pytest.mark.parametrize('stop_at', [0, 1, 5, 11, 12])
@pytest.mark.parametrize('num_parts', [None, 3])
def test_going_on_from_a_state_changes_nothing(stop_at, num_parts):
    whole = trainer_of(num_parts=num_parts).fit()
    first = trainer_of(num_parts=num_parts)
    for _ in range(stop_at):
        first.run_epoch()
    tensors, values = first.state()
    tensors = {key: tensor.clone() for key, tensor in tensors.items()}
    first.run_epoch()  # must not change what was taken
    torch.manual_seed(stop_at)
    second = trainer_of(num_parts=num_parts)
    second.load(tensors, values)
    result = second.fit()
    np.testing.assert_array_equal(result.scores, whole.scores)
    assert result.history == whole.history
    assert result.best_epoch == whole.best_epoch


def test_patience_survives_a_state():
    whole = trainer_of(epochs=500, patience=4)
    whole.fit()
    assert whole.epoch < 500
    first = trainer_of(epochs=500, patience=4)
    for _ in range(whole.epoch - 1):
        first.run_epoch()
    second = trainer_of(epochs=500, patience=4)
    second.load(*first.state())
    second.run_epoch()
    assert second.finished


def test_epochs_between_evaluations_have_no_record():
    trainer = trainer_of(epochs=7, eval_every=3)
    records = [trainer.run_epoch() for _ in range(7)]
    assert [bool(record) for record in records] == [
        *(False, False, True),
        *(False, False, True),
        True,
    ]


def test_only_labels_of_the_masks_are_read():
    data = graph()
    data.y[~(MASKS[0] | MASKS[1])] = -7
    seen = []

    def predict(model, part):
        seen.append('y' in part)
        return model(part.x, part.edge_index)

    result = trainer_of(data, predict=predict, num_parts=2).fit()
    np.testing.assert_array_equal(
        result.scores, trainer_of(num_parts=2).fit().scores
    )
    assert not any(seen)


def test_the_global_random_state_stays():
    torch.manual_seed(5)
    expected = torch.rand(3)
    trainer = trainer_of(epochs=2)
    torch.manual_seed(5)
    trainer.fit()
    assert torch.equal(torch.rand(3), expected)


def test_lazy_layers_get_their_shapes():
    class Lazy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCNConv(-1, 3)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    options = TrainOptions(epochs=2)
    trainer = ClassifierTrainer(Lazy(), graph(), *MASKS, options)
    assert trainer.fit().num_parameters == 12


def test_a_loss_that_is_not_finite_names_the_epoch():
    def predict(model, data):
        return model(data.x, data.edge_index) / 0

    with pytest.raises(FloatingPointError, match=r'epoch 1 .*lr=0\.01'):
        trainer_of(predict=predict).fit()


@pytest.mark.parametrize(
    ('masks', 'message'),
    [
        ((MASKS[0], MASKS[0]), 'disjoint'),
        ((MASKS[0][:5], MASKS[1]), r'bool of shape \[60\]'),
        ((MASKS[0].long(), MASKS[1]), 'torch.int64'),
        ((MASKS[0], MASKS[1] & False), 'labelled nodes in val_mask'),
    ],
)
def test_bad_masks(masks, message):
    with pytest.raises(ValueError, match=message):
        trainer_of(masks=masks)


def test_bad_arguments():
    with pytest.raises(ValueError, match="'epochs' and 'eval_every' >= 1"):
        TrainOptions(epochs=0)
    with pytest.raises(ValueError, match="'patience' >= 1"):
        trainer_of(patience=0)
    with pytest.raises(ValueError, match=r'logits of shape \[60, C\]'):
        trainer_of(predict=lambda model, data: data.x[:, 0]).fit()
    data = graph()
    data.y[MASKS[0]] = -1
    with pytest.raises(ValueError, match='15 of them unlabelled'):
        trainer_of(data)
