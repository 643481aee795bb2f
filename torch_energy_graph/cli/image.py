"""``teg train image`` and ``teg plot image``: completion of images."""

from pathlib import Path
from typing import Annotated

import typer

from torch_energy_graph.cli.interrupt import interruptible, stop_training
from torch_energy_graph.cli.output import Json, print_json

__all__ = ['plot_image', 'train_image']

Root = Annotated[
    Path | None,
    typer.Option(help='Folder of the images, searched before the usual ones.'),
]


def train_image(
    config: Annotated[Path, typer.Argument(help='A YAML configuration.')],
    out: Annotated[
        Path | None,
        typer.Option(help='Folder of the files. [default: runs/NAME]'),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            '--set',
            metavar='KEY=VALUE',
            help='Override a key, such as training.epochs=3.',
        ),
    ] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Train a model that completes images; a stopped training goes on."""
    from tqdm import tqdm

    from torch_energy_graph.bench.image_training import (
        ImageTraining,
        load_image_config,
    )
    from torch_energy_graph.bench.store import RunFolder

    loaded = load_image_config(config, override or ())
    folder = out or Path('runs') / loaded.name
    with RunFolder(folder).lock():
        training = ImageTraining(loaded, folder, root)
        trainer = training.trainer
        if training.resumed_at:
            typer.echo(
                f'Going on after batch {training.resumed_at}.', err=True
            )
        # disable=None: no bar unless standard error is a terminal
        with (
            tqdm(total=100, unit='%', disable=None) as bar,
            interruptible('batch') as interrupted,
        ):

            def on_step(loss: float) -> None:
                bar.set_postfix_str(
                    f'epoch {trainer.epoch}, loss {loss:.4f}', refresh=False
                )
                bar.update(round(100 * trainer.progress, 2) - bar.n)

            try:
                result = training.run(on_step, lambda: bool(interrupted))
            except KeyboardInterrupt:
                result = None
    if result is None:
        stop_training('teg train image', config, folder, override or ())
    if json:
        print_json(result)
        return
    typer.echo(
        f'{loaded.dataset}: mean squared error {result["test_mse"]:.5f} on '
        f'hidden patches of test images after {result["last_epoch"]:g} epochs '
        f'({result["seconds"]:.0f} s); files in {folder}'
    )


def plot_image(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a 'teg train image'.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help='Folder of the pictures. [default: FOLDER/plots]'),
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, help='Number of test images.')
    ] = 6,
    root: Root = None,
    json: Json = False,
) -> None:
    """Draw what an image model does, as PNG files."""
    from torch_energy_graph.bench.image_training import load_image_model
    from torch_energy_graph.datasets.images import load_images
    from torch_energy_graph.plot.figures import image_figures, png_bytes
    from torch_energy_graph.train import write_atomic
    from torch_energy_graph.train.image import draw_masks

    model, config = load_image_model(folder)
    images = load_images(config.dataset, root).test[:count]
    hidden = draw_masks(len(images), model.grid, config.training.ratio)
    written = []
    for name, figure in image_figures(model, images, hidden).items():
        path = (out or folder / 'plots') / f'{name}.png'
        write_atomic(path, png_bytes(figure))
        written.append(str(path))
    if json:
        print_json(written)
        return
    for line in written:
        typer.echo(line)
