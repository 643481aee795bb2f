"""``teg bench``: run, resume and report benchmarks."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torch_energy_graph.cli.output import Json, print_json

if TYPE_CHECKING:
    from torch_energy_graph.bench import RunFolder, Unit

__all__ = ['app']

app = typer.Typer(help='Run benchmarks.', no_args_is_help=True)
Folder = Annotated[Path, typer.Argument(help='The folder of a run.')]
Only = Annotated[
    list[str] | None,
    typer.Option(
        '--only',
        metavar='KEY=VALUE,...',
        help='Run a part, such as dataset=tolokers,model=et|gcn.',
    ),
]


@app.command('run')
def run_command(
    config: Annotated[Path, typer.Argument(help='A YAML configuration.')],
    out: Annotated[
        Path | None,
        typer.Option(help='Folder of the results. [default: runs/NAME]'),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            '--set',
            metavar='KEY=VALUE',
            help='Override a key, such as models.et.num_steps=8.',
        ),
    ] = None,
    only: Only = None,
    plan: Annotated[
        bool, typer.Option('--plan', help='Only show what would be run.')
    ] = False,
    json: Json = False,
) -> None:
    """Run a benchmark; units that are finished already are skipped."""
    from torch_energy_graph import bench

    loaded = bench.load_config(config, override or ())
    folder = bench.RunFolder(out or Path('runs') / loaded.name)
    units = bench.plan(loaded)
    part = bench.select(units, only or ())
    if plan:
        _show_plan(folder, part, json)
        return
    parts = ['teg', 'bench', 'run', str(config)]
    parts += ['--out', str(folder.path)]
    for text in override or ():
        parts += ['--set', text]
    about = {'schema': 1, 'name': loaded.name, 'command': shlex.join(parts)}
    with folder.lock():
        folder.write_plan(units, about)
        _run(folder, part, json)


@app.command('resume')
def resume_command(
    directory: Folder, only: Only = None, json: Json = False
) -> None:
    """Finish an interrupted run; failed units are tried again."""
    from torch_energy_graph import bench

    folder = bench.RunFolder(directory)
    units = bench.recheck(folder.read_plan()[0])
    units = bench.select(units, only or ())
    with folder.lock():
        _run(folder, units, json)


@app.command('report')
def report_command(directory: Folder, json: Json = False) -> None:
    """Write results.csv and report.md from what is finished."""
    from torch_energy_graph import bench

    text = bench.write_report(bench.RunFolder(directory))
    if json:
        print_json(_files(directory))
    else:
        typer.echo(text)


def _show_plan(folder: 'RunFolder', units: 'list[Unit]', json: bool) -> None:
    from torch_energy_graph import bench

    finished = [bench.is_finished(folder, unit) for unit in units]
    if json:
        listed = [
            {'key': unit.key, 'finished': done}
            for unit, done in zip(units, finished, strict=True)
        ]
        print_json({'folder': str(folder.path), 'units': listed})
        return
    for unit, done in zip(units, finished, strict=True):
        typer.echo(f'{"finished" if done else "to run":9} {unit.title}')
    typer.echo(
        f'{len(units)} units, {sum(finished)} finished, in {folder.path}'
    )


def _run(folder: 'RunFolder', units: 'list[Unit]', json: bool) -> None:
    """Run the units under a progress bar, report, and set the exit code."""
    from tqdm import tqdm

    from torch_energy_graph import bench

    todo = sum(not bench.is_finished(folder, unit) for unit in units)
    # disable=None: no bar unless standard error is a terminal.
    with tqdm(total=todo, unit='unit', disable=None) as bar:

        def on_row(unit: 'Unit', row: dict[str, Any]) -> None:
            tqdm.write(f'{unit.title}: {_outcome(row)}', file=sys.stderr)
            bar.update()

        try:
            summary = bench.run(folder, units, on_row)
        except KeyboardInterrupt:
            bar.close()
            hint = shlex.join(['teg', 'bench', 'resume', str(folder.path)])
            typer.echo(
                f'Interrupted; finished units are kept. Go on with: {hint}',
                err=True,
            )
            raise typer.Exit(130) from None
    text = bench.write_report(folder)
    if json:
        print_json({**vars(summary), **_files(folder.path)})
    else:
        typer.echo(text)
    typer.echo(
        f'{summary.total} units: {summary.done} done, {summary.skipped} '
        f'finished before, {summary.unavailable} unavailable, '
        f'{summary.failed} failed; results in {folder.path}',
        err=True,
    )
    if summary.failed:
        raise typer.Exit(1)


def _outcome(row: dict[str, Any]) -> str:
    if row['status'] != 'ok':
        return f'{row["status"]}: {row["error"]}'
    from torch_energy_graph import bench

    goal = bench.goal_of(row['unit']['protocol'])
    value, title = row['test'][goal.metric], goal.titles[goal.metric]
    return f'test {title} {value:.3f}, {row["seconds"]:.1f} s'


def _files(folder: Path) -> dict[str, str]:
    return {
        'csv': str(folder / 'results.csv'),
        'report': str(folder / 'report.md'),
    }
