"""What ood_images.py trains and measures: images, losses, attacks."""

import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn.functional import avg_pool2d, cross_entropy, interpolate

from torch_energy_graph.datasets.images import load_images
from torch_energy_graph.metrics import (
    brier_score,
    negative_log_likelihood,
    ood_metrics,
    top_label_calibration_error,
)
from torch_energy_graph.nn.models.wide_resnet import WideResNet
from torch_energy_graph.ood import (
    EnergyClassifier,
    JEMLoss,
    NGEBMLoss,
    SGLDSampler,
    fit_temperature,
    pgd_attack,
)

sys.path.insert(0, str(Path(__file__).parent))
from _ood_run import weights_of

NOISE = 0.03  # of the papers, for pixels in [-1, 1]
LR, BATCH = 1e-3, 32
SCORES = ('energy', 'max_prob', 'approx_mass')
PGD_STEPS = 20
# of pixels in [0, 1]; the paper's curves end at 20 / 255 and 250 / 255
LINF = (2 / 255, 4 / 255, 8 / 255, 16 / 255)
L2 = (0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Images:
    """Pixels in [-1, 1] and classes of three parts, and other images."""

    train: tuple
    val: tuple
    test: tuple
    others: dict

    @property
    def shape(self):
        return list(self.train[0].shape[1:])


def images_of(name, num_train, num_val, num_test, pool):
    """The first images of a set, and images that are not of it.

    Squares of `pool` x `pool` pixels become one.
    """
    found = load_images(name)
    end = num_train + num_val
    x, y = scaled(found.train[:end], pool), found.train_y
    test = scaled(found.test[:num_test], pool)
    others = {'interpolated': interpolated(test)}
    others['fashion'] = as_images(load_images('fashion'), test)
    return Images(
        (x[:num_train], y[:num_train]),
        (x[num_train:], y[num_train:end]),
        (test, found.test_y[:num_test]),
        others,
    )


def scaled(x, pool):
    return 2 * avg_pool2d(x, pool) - 1


def interpolated(x):
    """Means of two images that follow each other, with noise, as in JEM."""
    gen = torch.Generator().manual_seed(0)
    noise = torch.randn(x.shape, generator=gen)
    return (x + x.roll(1, 0)) / 2 + NOISE * noise


def as_images(other, like):
    """All images of a set in the size and channels of `like`."""
    x = 2 * torch.cat([other.train, other.test]) - 1
    if x.shape[2:] != like.shape[2:]:
        x = interpolate(x, like.shape[2:], mode='bilinear', antialias=True)
    return x.expand(-1, like.size(1), -1, -1)


def loss_of(method, shape, seed):
    """`loss(model, y, x)` of a method by its name."""
    if method.startswith('NG-EBM'):
        return NGEBMLoss(*weights_of(method)).evaluate
    if method.startswith('JEM'):  # and its number of steps
        gen = torch.Generator().manual_seed(seed)
        steps = int(method.split()[1])
        sampler = SGLDSampler(shape, steps, generator=gen)
        return JEMLoss(sampler).evaluate
    return lambda model, y, x: cross_entropy(model(x), y)


def train(method, images, epochs, seed, width=1):
    """A network and CPU milliseconds per step.

    Raises:
        FloatingPointError: If the loss is not finite or exceeds 1e8, as in
            JEM's code.
    """
    torch.manual_seed(seed)
    x, y = images.train
    model = WideResNet(x.size(1), int(y.max()) + 1, width=width)
    adam = torch.optim.Adam(model.parameters(), lr=LR)
    loss_fn = loss_of(method, images.shape, seed)
    start, steps = time.process_time(), 0
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(BATCH):
            noisy = x[rows] + NOISE * torch.randn(len(rows), *images.shape)
            adam.zero_grad()
            loss = loss_fn(model, y[rows], noisy)
            value = loss.item()
            if not math.isfinite(value) or abs(value) > 1e8:
                raise FloatingPointError(f'loss {value}')
            loss.backward()
            adam.step()
            steps += 1
    cost = 1000 * (time.process_time() - start) / steps
    return model.eval(), cost


def in_parts(function, x, *others):
    """A function of rows, a hundred at a time."""
    parts = zip(*(t.split(100) for t in (x, *others)), strict=True)
    return torch.cat([function(*part) for part in parts])


@torch.no_grad()
def logits_of(model, x):
    return in_parts(model, x)


def calibration(logits, y):
    prob, y = logits.double().softmax(-1).numpy(), y.numpy()
    return {
        'accuracy': float((prob.argmax(1) == y).mean()),
        'ece': top_label_calibration_error(y, prob),
        'ece_mid': top_label_calibration_error(y, prob, confidence='mid'),
        'nll': negative_log_likelihood(y, prob),
        'brier': brier_score(y, prob),
    }


def separation(model, images):
    """AUROC of every score against every set of other images."""
    classifier, row = EnergyClassifier(model), {}
    for kind in SCORES:

        def score(x, kind=kind):
            return in_parts(lambda x: classifier.score(x, kind=kind), x)

        known = score(images.test[0]).numpy()
        for name, x in images.others.items():
            found = ood_metrics(known, score(x).numpy())
            row[f'{name}_{kind}'] = found.auroc
    return row


def robustness(model, images, count, steps=PGD_STEPS):
    """Accuracy under attack, by norm and radius in pixels of [0, 1]."""
    x, y = (part[:count] for part in images.test)
    row = {}
    for norm, radii in (('linf', LINF), ('l2', L2)):
        for radius in radii:
            gen = torch.Generator().manual_seed(0)

            def attack(x, y, radius=2 * radius, norm=norm, gen=gen):
                return pgd_attack(
                    model, x, y, radius, norm, steps, None, (-1, 1), gen
                )

            moved = in_parts(attack, x, y)
            right = logits_of(model, moved).argmax(1) == y
            row[f'{norm}_{radius:.3g}'] = float(right.float().mean())
    return row


def measured(method, model, images, attacked):
    """The row of a network, and for CE that of its scaled temperature."""
    logits = logits_of(model, images.test[0])
    val = calibration(logits_of(model, images.val[0]), images.val[1])
    row = {
        'method': method,
        **{f'val_{key}': val[key] for key in ('accuracy', 'nll')},
        **calibration(logits, images.test[1]),
        **separation(model, images),
        **robustness(model, images, attacked),
    }
    if method != 'CE':
        return [row]
    temperature = fit_temperature(
        logits_of(model, images.val[0]), images.val[1]
    )
    scaled = calibration(logits / temperature, images.test[1])
    return [row, {'method': 'CE, temperature', **scaled}]
