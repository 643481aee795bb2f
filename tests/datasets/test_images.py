import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from torch_energy_graph.datasets.images import IMAGE_SHAPES, load_images


def write(folder, name, **arrays):
    (folder / 'images').mkdir(exist_ok=True)
    np.savez(folder / 'images' / f'{name}.npz', **arrays)


def test_digits():
    images = load_images('digits')
    pixels, classes = load_digits(return_X_y=True)
    assert images.train.shape == (1438, 1, 8, 8)
    assert images.test.shape == (359, 1, 8, 8)
    np.testing.assert_array_equal(
        images.test[1].numpy().ravel() * 16, pixels[9]
    )
    assert images.test_y.tolist() == classes[4::5].tolist()
    assert images.train_y[4] == classes[5]


def test_two_files(tmp_path):
    pixels = np.arange(6 * 4, dtype=np.uint8).reshape(6, 2, 2) * 10
    y = np.arange(6, dtype=np.uint8)
    write(tmp_path, 'mnist_train_20k', x=pixels, y=y)
    write(tmp_path, 'mnist_test', x=pixels[:2], y=y[:2])
    images = load_images('mnist', tmp_path)
    assert images.train.shape == (6, 1, 2, 2)
    assert images.train.dtype == torch.float32
    np.testing.assert_allclose(images.train[5, 0], pixels[5] / 255, rtol=1e-6)
    assert images.test_y.tolist() == [0, 1]


def test_channels_come_first(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3), np.uint8)
    y = np.zeros(4, dtype=np.uint8)
    write(
        tmp_path,
        'cifar10_small',
        x_train=pixels,
        y_train=y,
        x_test=pixels[:1],
        y_test=y[:1],
    )
    images = load_images('cifar10', tmp_path)
    assert images.train.shape == (4, 3, 5, 6)
    expected = pixels[2, :, :, 1].astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(images.train[2, 1], expected)
    assert len(images.test) == 1


@pytest.mark.parametrize(
    ('arrays', 'message'),
    [
        ({'x': np.ones((3, 2, 2), np.uint8)}, "no array 'y'"),
        ({'x': np.ones((3, 2, 2)), 'y': np.ones(3)}, 'uint8 images'),
        (
            {'x': np.ones((3, 2, 2), np.uint8), 'y': np.ones(2)},
            'one class each',
        ),
    ],
)
def test_damaged_files(tmp_path, arrays, message):
    write(tmp_path, 'fashion_sprite900', **arrays)
    with pytest.raises(ValueError, match=message):
        load_images('fashion', tmp_path)


def test_unknown_and_absent(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match='digits, mnist, fashion, cifar10'):
        load_images('svhn')
    for name in ('TEG_DATA', 'TEG_SHARED'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('HOME', str(tmp_path))
    with pytest.raises(FileNotFoundError, match='mnist_train_20k'):
        load_images('mnist', tmp_path)


@pytest.mark.parametrize(
    ('name', 'train', 'test'),
    [
        ('mnist', 20_000, 10_000),
        ('fashion', 720, 180),
        ('cifar10', 1_000, 250),
    ],
)
def test_files_of_the_data_root(name, train, test, data_root):
    images = load_images(name, data_root)
    assert images.train.shape == (train, *IMAGE_SHAPES[name])
    assert images.test.shape == (test, *IMAGE_SHAPES[name])
    assert images.train.min() == 0
    assert images.train.max() == 1
    assert images.test_y.unique().tolist() == list(range(10))
