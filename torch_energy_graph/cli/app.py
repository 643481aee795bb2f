"""Entry point: commands, exit codes and one clear line for every error."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from torch_energy_graph import __version__
from torch_energy_graph.cli import (
    bench,
    data,
    doctor,
    image,
    ogb,
    ood,
    train,
)
from torch_energy_graph.cli.fraud.explain import explain
from torch_energy_graph.cli.fraud.predict import predict
from torch_energy_graph.cli.fraud.train import train_tables
from torch_energy_graph.cli.fraud.train_group import TrainGroup

__all__ = ['app', 'main']

app = typer.Typer(
    help='Graph layers that descend an energy.',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command('doctor')(doctor.doctor)
app.add_typer(data.app, name='data')
app.add_typer(bench.app, name='bench')
train_app = typer.Typer(
    cls=TrainGroup, help='Train a model.', no_args_is_help=True
)
train_app.command('nodes')(train.train)  # also without its name
train_app.command('image')(image.train_image)
train_app.command('tables')(train_tables)  # also of a folder without it
app.add_typer(train_app, name='train')
plot_app = typer.Typer(help='Draw pictures.', no_args_is_help=True)
plot_app.command('image')(image.plot_image)
app.add_typer(plot_app, name='plot')
app.command('evaluate')(ood.evaluate)
app.command('predict')(predict)
app.command('explain')(explain)
app.add_typer(ogb.app, name='ogb')


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f'teg {__version__}')
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            '--version',
            callback=_print_version,
            is_eager=True,
            help='Show the version.',
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option('--debug', help='Show tracebacks of errors.')
    ] = False,
) -> None:
    """Exit codes: 0 ok, 1 failed, 2 wrong usage, 130 interrupted."""


def main(args: Sequence[str] | None = None) -> int:
    """Run ``teg`` and return its exit code.

    Args:
        args (sequence of str, optional): Arguments; if :obj:`None`, those
            of the process. (default: :obj:`None`)
    """
    # before torch loads OpenMP: on busy cores, threads that spin while they
    # wait make small operations many times slower
    os.environ.setdefault('OMP_WAIT_POLICY', 'PASSIVE')
    given = list(sys.argv[1:] if args is None else args)
    arguments = [arg for arg in given if arg != '--debug']  # in any place
    try:
        app(args=arguments, prog_name='teg')
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop))
    except Exception as error:
        if arguments != given:
            raise
        text = ' '.join(str(error).split()) or type(error).__name__
        print(f'teg: error: {text}', file=sys.stderr)
        return int(getattr(error, 'exit_code', 1))
    return 0
