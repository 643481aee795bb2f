"""The scripts of the image table and the grid: rows and values, not times."""

import csv
import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from torch_energy_graph.train.image import draw_masks

BENCHMARKS = Path(__file__).parents[2] / 'benchmarks'


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / 'speed'))
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module


@pytest.fixture
def run(module, monkeypatch, tmp_path):
    def main(*arguments):
        words = ['image_completion', '--small', '--threads', '1']
        words += ['--work', str(tmp_path / 'work'), *arguments]
        words += ['--out', str(tmp_path / 'out')]
        monkeypatch.setattr(sys, 'argv', words)
        return module('image_completion').main()

    return main


def read(path):
    with open(path, newline='') as file:
        return list(csv.DictReader(file))


def test_table_picture_and_report(run, module, tmp_path):
    assert run() == 0
    rows = read(tmp_path / 'out.csv')
    script = module('image_completion')
    assert [row['method'] for row in rows] == list(script.METHODS)
    et, vit, mean, *_ = rows
    sizes = int(et['parameters']), int(vit['parameters'])
    assert abs(sizes[0] - sizes[1]) < 20  # a unit of the ViT has 17
    assert float(et['epochs']) == float(vit['epochs']) == 1
    for row in rows:
        assert 0 < float(row['first_mse']) < 1
        assert bool(row['test_mse']) == (row in (et, vit, *rows[2:4]))
    # the mean image by hand, on the masks of the script
    images = module('torch_energy_graph.datasets.images').load_images('digits')
    test = images.test[:10]
    hidden = draw_masks(10, (4, 4), seed=1).view(10, 4, 4)
    hidden = hidden.repeat_interleave(2, 1).repeat_interleave(2, 2)
    squares = (images.train[:64].mean(0) - test).square().squeeze(1)
    expected = squares[hidden].mean().item()
    assert float(mean['test_mse']) == pytest.approx(expected, rel=1e-4)
    text = (tmp_path / 'out.md').read_text()
    assert '8 of them hidden' in text
    assert '`python benchmarks/image_completion.py --epochs 1 ' in text
    assert str(tmp_path) not in text
    assert 'Against the block of a vision transformer' in text
    picture = (tmp_path / 'out.png').read_bytes()
    assert picture.startswith(b'\x89PNG')


def test_a_stopped_run_goes_on(run, module, monkeypatch, tmp_path):
    script = module('image_completion')
    step = script.ImageTrainer.run_step

    def one_step(trainer):
        if trainer.step == 1:
            raise KeyboardInterrupt
        return step(trainer)

    monkeypatch.setattr(script.ImageTrainer, 'run_step', one_step)
    methods = ('--methods', script.ET, 'mean image', '--batch-size', '32')
    assert run(*methods) == 130
    state = tmp_path / 'work' / 'imageenergytransformer' / 'state.json'
    assert json.loads(state.read_text())['values']['step'] == 1
    monkeypatch.setattr(script.ImageTrainer, 'run_step', step)
    with pytest.raises(SystemExit, match=r'other settings \(batch_size\)'):
        run(*methods[:-1], '16')
    assert run(*methods) == 0
    stopped = read(tmp_path / 'out.csv')
    assert run(*methods, '--again') == 0
    again = read(tmp_path / 'out.csv')
    assert [row['test_mse'] for row in stopped] == [
        row['test_mse'] for row in again
    ]
    monkeypatch.setattr(script, 'run', None)
    assert run(*methods) == 0  # nothing is left to do


def test_multiply_adds_by_hand(module):
    models = module('_image_models')
    vit = models.OneBlockViT(8, 2, 1, 8, 2, feedforward=5)
    images, hidden = torch.rand(3, 1, 8, 8), torch.zeros(3, 16).bool()
    tokens = 16
    projections = tokens * (4 * 8 + 3 * 8 * 8 + 8 * 8 + 2 * 8 * 5 + 8 * 4)
    attention = 2 * tokens * tokens * 8
    found = models.multiply_adds(vit, images, hidden)
    assert found == projections + attention


@pytest.fixture
def baselines(module):
    return module('_image_baselines')


def hidden_square():
    hidden = torch.zeros(1, 1, 9, 9, dtype=torch.bool)
    hidden[..., 3:6, 4:8] = True
    return hidden


def plane():
    rows, cols = torch.meshgrid(
        torch.arange(9.0), torch.arange(9.0), indexing='ij'
    )
    return (0.1 + 0.03 * rows + 0.02 * cols).view(1, 1, 9, 9)


@pytest.mark.parametrize('name', ['cubic', 'diffusion', 'biharmonic'])
def test_inpainting_fills_a_plane(baselines, name):
    image, hidden = plane(), hidden_square()
    lost = image.masked_fill(hidden, 99.0)
    out = getattr(baselines, name)(lost, hidden)
    torch.testing.assert_close(out, image, rtol=0, atol=1e-5)


def test_inpainting_keeps_what_is_seen_and_needs_something(baselines):
    gen = torch.Generator().manual_seed(0)
    images = torch.rand(3, 2, 9, 9, generator=gen)
    hidden = torch.rand(3, 1, 9, 9, generator=gen) < 0.5
    hidden[1], hidden[2] = True, False
    for name in ('cubic', 'diffusion', 'biharmonic'):
        out = getattr(baselines, name)(images, hidden)
        seen = ~hidden.expand_as(images)
        assert torch.equal(out[seen], images[seen])
        assert (out[1] == 0.5).all()
        assert out.isfinite().all()


def test_heat_is_at_rest(baselines):
    gen = torch.Generator().manual_seed(0)
    image = torch.rand(1, 1, 9, 9, generator=gen)
    hidden = hidden_square()
    out = baselines.diffusion(image, hidden)[0, 0].double().numpy()
    padded = np.pad(out, 1, mode='edge')
    around = padded[:-2, 1:-1] + padded[2:, 1:-1]
    around = (around + padded[1:-1, :-2] + padded[1:-1, 2:]) / 4
    inside = hidden[0, 0].numpy()
    np.testing.assert_allclose(out[inside], around[inside], atol=1e-6)


def test_the_nearest_image_is_found(baselines):
    gen = torch.Generator().manual_seed(0)
    train = torch.rand(50, 1, 6, 6, generator=gen)
    images = train[[7, 31]] + 0.01
    hidden = torch.rand(2, 1, 6, 6, generator=gen) < 0.5
    lost = images.masked_fill(hidden, 9.0)
    out = baselines.nearest_neighbour(train, lost, hidden, block=1)
    expected = torch.where(hidden, train[[7, 31]], lost)
    assert torch.equal(out, expected)


def test_grid_rows(module, monkeypatch, tmp_path):
    script, jobs = module('image_grid'), module('_jobs')

    def run_job(name, job):
        work = module(Path(name).stem).work
        return [json.loads(json.dumps(row)) for row in work(job)]

    for holder in (script, jobs):
        monkeypatch.setattr(holder, 'run_job', run_job)
    out = tmp_path / 'rows.csv'
    words = ['image_grid', '--small', '--repeats', '1', '--out', str(out)]
    monkeypatch.setattr(sys, 'argv', words)
    threads = torch.get_num_threads()
    try:
        assert script.main() == 0
    finally:
        torch.set_num_threads(threads)
    complete, near = read(out)
    assert (complete['edges'], near['edges']) == ('4096', '484')
    for row in (complete, near):
        assert 0 < float(row['last_loss']) < float(row['first_loss']) < 10
        assert float(row['step_cpu_s']) > 0
    assert float(near['step_cpu_s_ratio']) > 0
