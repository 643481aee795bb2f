import math

import pytest
import torch

from torch_energy_graph.nn.models.image_energy_transformer import (
    ImageEnergyTransformer,
)
from torch_energy_graph.train import load_state, save_state
from torch_energy_graph.train.image import (
    ImageTrainer,
    ImageTrainOptions,
    completion_error,
    draw_masks,
)
from torch_energy_graph.train.masking import BoxMasking


def build(**arguments):
    torch.manual_seed(0)
    return ImageEnergyTransformer(
        4, 2, hidden_channels=8, heads=2, num_steps=2, **arguments
    )


def plain(count=20):
    """Images of one value each: what is seen tells what is hidden."""
    gen = torch.Generator().manual_seed(0)
    return torch.rand(count, 1, 1, 1, generator=gen).repeat(1, 1, 4, 4)


class Constant(torch.nn.Module):
    patch_size = (2, 2)

    def __init__(self, value):
        super().__init__()
        self.value = torch.nn.Parameter(torch.tensor(value))

    def forward(self, images, mask):
        self.seen = mask
        return self.value.expand_as(images)


def test_the_error_by_hand():
    images = torch.zeros(3, 1, 4, 4)
    images[0, 0, :2, :2] = 1.0  # the first patch
    hidden = torch.tensor([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]).bool()
    model = Constant(0.5).train()
    found = completion_error(model, images, hidden, batch_size=2)
    assert found == pytest.approx(0.25)
    images[1, 0, :2, 2:] = torch.tensor([[0.5, 0.5], [2.5, 0.5]])
    found = completion_error(model, images, hidden, batch_size=1)
    assert found == pytest.approx((0.25 + 0.25 + 1.0) / 3)
    assert model.training


def test_it_learns_what_can_be_learned():
    images = plain(200)
    options = ImageTrainOptions(epochs=10, batch_size=15, lr=0.02)
    trainer = ImageTrainer(build(), images[:150], options, val=images[150:])
    assert trainer.run()
    errors = [record['val_mse'] for record in trainer.history]
    hidden = draw_masks(50, (2, 2))
    assert errors[-1] == completion_error(trainer.model, images[150:], hidden)
    # the best constant has 1 / 12
    assert errors[-1] < 0.02 < errors[0]


def test_batches_and_masks():
    images = plain(7)
    options = ImageTrainOptions(epochs=2, batch_size=3)
    trainer = ImageTrainer(Constant(0.5), images, options)
    assert trainer.steps_per_epoch == 3
    orders = []
    for _ in range(2):
        batches = []
        for size in (3, 3, 1):
            part, masks, _ = trainer._batch()
            assert len(part) == size
            batches.append(part)
            trainer.run_step()
            assert torch.equal(trainer.model.seen, masks.hidden)
        epoch = torch.cat(batches)
        for image in images:  # each once
            assert (epoch == image).flatten(1).all(1).sum() == 1
        orders.append(epoch)
    assert trainer.finished
    assert trainer.epoch == 2
    assert not torch.equal(*orders)


def test_the_loss_is_on_the_patches_of_the_loss():
    images = plain(4)
    options = ImageTrainOptions(epochs=1, ratio=1.0, visible=0.5)
    trainer = ImageTrainer(Constant(0.5), images, options)
    expected = (images - 0.5).square().mean().item()
    assert trainer.run_step() == pytest.approx(expected)
    assert trainer.model.seen.sum(1).tolist() == [2] * 4
    box = ImageTrainer(
        Constant(0.5), images, options, masking=BoxMasking(1, 2)
    )
    box.run_step()
    assert box.model.seen.view(4, 2, 2).all(2).sum(1).tolist() == [1] * 4


@pytest.mark.parametrize('noise', [0.0, 0.1])
def test_a_stopped_training_goes_on_to_the_bit(noise, tmp_path):
    def trainer():
        options = ImageTrainOptions(epochs=3, batch_size=6, seed=4)
        return ImageTrainer(
            build(noise_std=noise), plain(), options, val=plain(4)
        )

    whole = trainer()
    whole.run()
    stopped = trainer()
    for step in range(7):  # in the middle of an epoch
        assert not stopped.run(stop=lambda: True)
        assert stopped.step == step + 1
    save_state(tmp_path, *stopped.state())
    torch.manual_seed(99)
    before = torch.get_rng_state()
    resumed = trainer()
    resumed.load(*load_state(tmp_path))
    assert resumed.run()
    for key, value in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[key], value), key
    for found, expected in zip(resumed.history, whole.history, strict=True):
        del found['seconds'], expected['seconds']
        assert found == expected
    torch.manual_seed(99)  # build() has seeded: the training itself did not
    assert torch.equal(torch.get_rng_state(), before)


def test_the_learning_rate_rises_and_falls():
    options = ImageTrainOptions(epochs=10, batch_size=5, lr=0.1, warmup=0.25)
    trainer = ImageTrainer(Constant(0.5), plain(), options)  # 40 steps
    rates = []
    while not trainer.finished:
        trainer.run_step()
        rates.append(trainer.optimizer.param_groups[0]['lr'])
    assert rates[0] == pytest.approx(1e-4)
    assert rates[5] == pytest.approx(0.05)
    assert max(rates) == rates[10] == pytest.approx(0.1)
    cosine = 0.05 * (1 + math.cos(math.pi * 0.5))
    assert rates[25] == pytest.approx(cosine)
    assert rates[-1] < 0.001


def test_only_matrices_decay():
    trainer = ImageTrainer(build(), plain())
    decayed, others = trainer.optimizer.param_groups
    assert all(p.dim() >= 2 for p in decayed['params'])
    names = {id(p): name for name, p in trainer.model.named_parameters()}
    kept = {names[id(p)] for p in others['params']}
    assert {'mask_token', 'block.norm.weight', 'encoder.bias'} <= kept
    assert others['weight_decay'] == 0 < decayed['weight_decay']


def test_minutes_end_a_training():
    options = ImageTrainOptions(epochs=None, minutes=1e-9)
    trainer = ImageTrainer(Constant(0.5), plain(), options)
    assert trainer.run()
    assert trainer.step == 1
    assert [record['step'] for record in trainer.history] == [1]


def test_a_loss_that_is_no_number_is_an_error():
    trainer = ImageTrainer(Constant(float('nan')), plain())
    with pytest.raises(FloatingPointError, match=r'step 1 .*lower lr'):
        trainer.run()


def test_wrong_input():
    with pytest.raises(ValueError, match='above 0'):
        ImageTrainOptions(epochs=None)
    with pytest.raises(ValueError, match="'warmup' < 1"):
        ImageTrainOptions(warmup=1.0)
    with pytest.raises(ValueError, match="'ratio'"):
        ImageTrainOptions(ratio=2.0)
    with pytest.raises(ValueError, match=r'\[n, c, H, W\]'):
        ImageTrainer(build(), torch.ones(4, 4))
