"""``teg train``: one model on one split, saved and resumed."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from torch_energy_graph.cli.interrupt import interruptible, stop_training
from torch_energy_graph.cli.output import Json, print_json

__all__ = ['train']


class Loss(str, Enum):
    """Losses beside the cross-entropy."""

    NGEBM = 'ngebm'


def train(
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
            help='Override a key, such as params.num_layers=4.',
        ),
    ] = None,
    loss: Annotated[
        Loss | None,
        typer.Option(help='What is minimised. [default: cross-entropy]'),
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(help="Weight of NG-EBM's gradient term; has no default."),
    ] = None,
    variance: Annotated[
        float | None,
        typer.Option(help="Weight of the energies' variance. [default: 0]"),
    ] = None,
    json: Json = False,
) -> None:
    """Train a node classifier; a training that was stopped goes on."""
    from tqdm import tqdm

    from torch_energy_graph import bench

    override = [*(override or ()), *_loss_overrides(loss, beta, variance)]
    loaded = bench.load_train_config(config, override)
    folder = out or Path('runs') / loaded.name
    with bench.RunFolder(folder).lock():
        training = bench.Training(loaded, folder)
        if training.resumed_at:
            typer.echo(
                f'Going on after epoch {training.resumed_at}.', err=True
            )
        # disable=None: no bar unless standard error is a terminal
        with (
            tqdm(
                total=training.max_epochs,
                initial=training.resumed_at,
                unit='epoch',
                disable=None,
            ) as bar,
            interruptible('epoch') as interrupted,
        ):

            def on_epoch(record: dict[str, Any] | None) -> None:
                bar.update()
                if record is not None:
                    bar.set_postfix_str(
                        f'loss {record["loss"]:.3f}, validation '
                        f'{record["val_accuracy"]:.3f}'
                    )

            try:
                result = training.run(on_epoch, lambda: bool(interrupted))
            except KeyboardInterrupt:
                result = None
    if result is None:
        stop_training('teg train', config, folder, override)
    if json:
        print_json(result)
        return
    typer.echo(
        f'{loaded.model} on {loaded.dataset}, {loaded.protocol} split '
        f'{loaded.split}: test accuracy {result["test"]["accuracy"]:.4f}, '
        f'validation {result["val"]["accuracy"]:.4f} at epoch '
        f'{result["best_epoch"]} of {result["last_epoch"]}; files in {folder}'
    )


def _loss_overrides(
    loss: Loss | None, beta: float | None, variance: float | None
) -> list[str]:
    """Return the options of a loss as keys of the configuration."""
    if loss is None:
        if beta is not None or variance is not None:
            raise typer.BadParameter('--beta and --variance need --loss')
        return []
    values = {'name': loss.value, 'beta': beta, 'variance': variance}
    return [f'loss.{k}={v}' for k, v in values.items() if v is not None]
