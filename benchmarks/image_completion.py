"""Completion of MNIST with half of the patches hidden: the image table.

Two networks of equal size (an energy transformer, one block of a vision
transformer), each trained for the same time with the same batches, masks and
learning rate; and completions without training. All complete the same hidden
patches, and all predictions are clipped to [0, 1].

    python benchmarks/image_completion.py --minutes 20

To choose settings, give `--validate 1000` and another `--work` and `--out`:
the last training images, then not trained on, stand for the test images.

What is interrupted goes on with the same command; `--again` starts anew.
"""

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

import torch
from tqdm import tqdm

from torch_energy_graph.datasets.images import IMAGE_SHAPES, load_images
from torch_energy_graph.nn.grid import (
    grid_shape,
    image_to_patches,
    patches_to_image,
)
from torch_energy_graph.nn.models.image_energy_transformer import (
    ImageEnergyTransformer,
)
from torch_energy_graph.plot.figures import new_figure, png_bytes
from torch_energy_graph.plot.image import label_columns, plot_images
from torch_energy_graph.train import (
    load_state,
    load_tensors,
    save_state,
    save_tensors,
    write_atomic,
)
from torch_energy_graph.train.image import (
    ImageTrainer,
    ImageTrainOptions,
    draw_masks,
)

sys.path.insert(0, str(Path(__file__).parent))
import _image_baselines as baselines
from _image_models import count_parameters, multiply_adds, vit_of_size
from _image_report import COLUMNS, ET, VIT, csv_text, read_rows, report

# name: function, whether it reads training images
UNTRAINED = {
    'mean image': (baselines.mean_image, True),
    'nearest neighbour': (baselines.nearest_neighbour, True),
    'bicubic': (baselines.cubic, False),
    'diffusion': (baselines.diffusion, False),
    'biharmonic': (baselines.biharmonic, False),
}
METHODS = (ET, VIT, *UNTRAINED)
SHOWN = 8  # images of the picture


class Task:
    """Images, their hidden patches, and what is measured."""

    def __init__(self, args):
        images = load_images(args.dataset, args.root)
        self.train = images.train[: args.train_images]
        self.test = images.test[: args.test_images]
        if args.validate:  # no test image is seen
            self.test = self.train[-args.validate :]
            self.train = self.train[: -args.validate]
        self.first = min(args.first, len(self.test))
        self.shown = min(SHOWN, self.first)
        self.patch = args.patch_size
        self.grid = grid_shape(self.test.shape[2:], self.patch)
        self.mask = draw_masks(len(self.test), self.grid, args.ratio, seed=1)
        pixels = self.mask.unsqueeze(-1).expand(-1, -1, self.patch**2)
        self.hidden = patches_to_image(pixels, self.test.shape[2:], self.patch)

    def error(self, out, count):
        """Mean squared error on hidden patches of the first images."""
        difference = out[:count].clamp(0, 1) - self.test[:count]
        squares = image_to_patches(difference, self.patch).square().mean(-1)
        return float(squares[self.mask[:count]].double().mean())


def build(method, args):
    """A network; both have the number of parameters of the first."""
    channels, *size = IMAGE_SHAPES[args.dataset]
    torch.manual_seed(args.seed)
    model = ImageEnergyTransformer(
        tuple(size),
        args.patch_size,
        channels,
        hidden_channels=args.channels,
        heads=args.heads,
        num_steps=args.steps,
        step_size=args.step_size,
        head_channels=args.head_channels,
        num_memories=args.memories,
        clamp=not args.move_all,
    )
    if method == ET:
        return model
    torch.manual_seed(args.seed)
    return vit_of_size(
        count_parameters(model),
        image_size=tuple(size),
        patch_size=args.patch_size,
        in_channels=channels,
        hidden_channels=args.channels,
        heads=args.heads,
    )


def train(method, model, task, args):
    """Train for the time given; what is stopped is saved and goes on."""
    folder = args.work / _file_name(method)
    trainer = ImageTrainer(model, task.train, options(args))
    state = load_state(folder)
    if state is not None:
        trainer.load(*state)
    saved = trainer.seconds
    with tqdm(total=100, unit='%', desc=method, disable=None) as bar:
        try:
            while not trainer.finished:
                loss = trainer.run_step()
                bar.set_postfix_str(f'loss {loss:.4f}', refresh=False)
                bar.update(round(100 * trainer.progress, 2) - bar.n)
                if trainer.seconds - saved > 60:
                    save_state(folder, *trainer.state())
                    saved = trainer.seconds
        finally:  # also when interrupted between two batches
            save_state(folder, *trainer.state())
    return trainer


def options(args):
    return ImageTrainOptions(
        epochs=args.epochs,
        minutes=args.minutes,
        batch_size=args.batch_size,
        lr=args.lr,
        ratio=args.ratio,
        visible=args.visible,
        seed=args.seed,
    )


@torch.no_grad()
def predict(model, task, batch_size=250):
    model.eval()
    parts = zip(
        task.test.split(batch_size), task.mask.split(batch_size), strict=True
    )
    return torch.cat([model(images, mask) for images, mask in parts])


def run(method, task, args):
    """The row of a method, and its completions of the first images."""
    row = dict.fromkeys(COLUMNS)
    row['method'] = method
    count = len(task.test)
    if method in UNTRAINED:
        complete, reads_training = UNTRAINED[method]
        # without training images, every image costs a system of equations
        count = count if reads_training else task.first
        given = (task.train,) if reads_training else ()
        start = time.perf_counter()
        out = complete(*given, task.test[:count], task.hidden[:count])
        row['test_seconds'] = time.perf_counter() - start
    else:
        model = build(method, args)
        row['parameters'] = count_parameters(model)
        two = task.test[:2], task.mask[:2]
        row['multiply_adds'] = multiply_adds(model, *two)
        trainer = train(method, model, task, args)
        row['minutes'] = trainer.seconds / 60
        row['epochs'] = trainer.step / trainer.steps_per_epoch
        start = time.perf_counter()
        out = predict(model, task)
        row['test_seconds'] = time.perf_counter() - start
    if count == len(task.test):
        row['test_mse'] = task.error(out, count)
    row['first_mse'] = task.error(out, task.first)
    return row, _shown(task, out)


def _shown(task, out):
    count = task.shown
    out = out[:count].clamp(0, 1)
    return torch.where(task.hidden[:count], out, task.test[:count])


def _file_name(method):
    return method.lower().replace(',', '').replace(' ', '_')


def draw(task, args):
    """A row per image: what is seen, every method, the truth."""
    count = task.shown
    seen = task.test[:count].masked_fill(task.hidden[:count], 0.5)
    columns, names = [seen], ['seen']
    for method in METHODS:
        path = args.work / f'{_file_name(method)}.safetensors'
        if path.exists():
            columns.append(load_tensors(path)['images'])
            names.append(method)
    columns.append(task.test[:count])
    figure = new_figure(1.2 * len(columns), 1 + 1.2 * len(seen))
    stacked = torch.stack(columns, dim=1).flatten(0, 1)
    ax = plot_images(stacked, len(columns), figure.subplots())
    label_columns(ax, [*names, 'truth'])
    return png_bytes(figure)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add('--methods', nargs='+', default=list(METHODS), choices=METHODS)
    add('--minutes', type=float, default=20, help='of training, per network')
    add('--epochs', type=int, help='largest number of epochs')
    add('--dataset', default='mnist', choices=list(IMAGE_SHAPES))
    add('--patch-size', type=int, default=4)
    add('--channels', type=int, default=64)
    add('--heads', type=int, default=8)
    add('--head-channels', type=int, default=16)
    add('--memories', type=int, default=128)
    add('--steps', type=int, default=2, help='T')
    add('--move-all', action='store_true', help='visible tokens, too')
    add('--step-size', type=_step_size, default=0.6)
    add('--batch-size', type=int, default=64)
    add('--lr', type=float, default=2e-2)
    add('--ratio', type=float, default=0.5, help='share of hidden patches')
    add('--visible', type=float, default=0.1, help='left visible in training')
    add('--train-images', type=int)
    add('--test-images', type=int)
    add('--validate', type=int, help='test on so many training images')
    add('--first', type=int, default=1000, help='for in-painting')
    add('--seed', type=int, default=0)
    add('--threads', type=int, default=2)
    add('--small', action='store_true', help='digits, one epoch, in seconds')
    add('--again', action='store_true', help='forget what was done')
    add('--root', help='folder of the images')
    add('--work', type=Path, default=Path('build/image_completion'))
    add(
        '--out',
        default='benchmarks/results/image_completion',
        help='path of the .csv, .md and .png files, without ending',
    )
    args = parser.parse_args()
    if args.small:
        args.dataset, args.patch_size, args.epochs = 'digits', 2, 1
        args.channels, args.steps, args.first = 8, 2, 5
        args.heads, args.head_channels, args.memories = 2, 8, 16
        args.train_images, args.test_images = 64, 10
    args.command = 'python benchmarks/image_completion.py'
    for key in settings_of(args):
        value = getattr(args, key)
        if value != parser.get_default(key):
            args.command += f' --{key.replace("_", "-")}'
            args.command += '' if value is True else f' {value}'
    return args


def settings_of(args):
    """What a result depends on, but for the threads."""
    free = ('methods', 'again', 'out', 'work', 'root', 'threads', 'small')
    values = vars(args).items()
    return {k: v for k, v in values if k not in (*free, 'command')}


def check_work(args):
    """Refuse to go on from a training with other settings."""
    settings = settings_of(args)
    path = args.work / 'settings.json'
    if not path.exists():
        write_atomic(path, json.dumps(settings, indent=1) + '\n')
        return
    stored = json.loads(path.read_text(encoding='utf-8'))
    changed = [key for key in settings if settings[key] != stored.get(key)]
    if changed:
        raise SystemExit(
            f"'{args.work}' was begun with other settings "
            f'({", ".join(changed)}); give them, or --again, or --work'
        )


def _step_size(text):
    return text if text in ('auto', 'learn') else float(text)


def main():
    args = parse()
    torch.set_num_threads(args.threads)
    table = Path(f'{args.out}.csv')
    if args.again:
        shutil.rmtree(args.work, ignore_errors=True)
        table.unlink(missing_ok=True)
    check_work(args)
    task, rows = Task(args), read_rows(table)
    try:
        for method in args.methods:
            if method in rows:
                continue
            rows[method], shown = run(method, task, args)
            save_tensors(
                args.work / f'{_file_name(method)}.safetensors',
                {'images': shown},
            )
            write_atomic(table, csv_text(rows, METHODS))
            error = float(rows[method]['first_mse'])
            print(f'{method}: {error:.5f}', flush=True)
    except KeyboardInterrupt:
        print('stopped; the same command goes on', file=sys.stderr)
        return 130
    text = report(rows, task, METHODS, args.command)
    write_atomic(table.with_suffix('.md'), text)
    write_atomic(table.with_suffix('.png'), draw(task, args))
    return 0


if __name__ == '__main__':
    sys.exit(main())
