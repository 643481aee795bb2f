"""``teg ogb``: run and submit leaderboard entries of OGB."""

import shlex
import sys
from contextlib import ExitStack
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from torch_energy_graph.cli.output import Json, print_json

__all__ = ['app']

app = typer.Typer(help='Leaderboard entries of OGB.', no_args_is_help=True)


@app.command('run')
def run_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar='CONFIG|DATASET',
            help='A YAML file, ogbn-arxiv, ogbn-proteins or ogbn-products.',
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help='Folder of results. [default: runs/DATASET-MODEL]'),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            '--set',
            metavar='KEY=VALUE',
            help='Override a key, such as params.heads=4 or model=gcn.',
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(help='Folder that holds ogbn_arxiv and its like.'),
    ] = None,
    download: Annotated[
        bool,
        typer.Option('--download', help='Fetch the dataset if it is absent.'),
    ] = False,
    device: Annotated[
        str, typer.Option(help='Where to train: cpu, cuda, cuda:1.')
    ] = 'cpu',
    eval_device: Annotated[
        str | None,
        typer.Option(help='Where to evaluate. [default: as --device]'),
    ] = None,
    json: Json = False,
) -> None:
    """Train ten seeds; those that are finished already are skipped."""
    from torch_energy_graph.bench import ogb

    config = ogb.load_ogb_config(source, override or ())
    folder = ogb.OGBFolder(
        out or Path('runs') / f'{config.dataset}-{config.model}'
    )
    parts = ['teg', 'ogb', 'run', source]
    for text in override or ():
        parts += ['--set', text]
    parts += ['--device', device]
    if eval_device is not None:
        parts += ['--eval-device', eval_device]
    command = shlex.join(parts)
    try:
        # before the dataset is read, which takes a while
        folder.check(config)
        for name in (device, eval_device or device):
            ogb.check_device(name)
        task = ogb.load_task(config.dataset, config.data, root, download)
        with folder.lock(), _Shown(config.training.epochs, json) as shown:
            summary = ogb.run(
                folder,
                config,
                task,
                command,
                device,
                eval_device,
                shown.start,
                shown.epoch,
                shown.seed,
            )
    except KeyboardInterrupt:
        typer.echo(
            f'Interrupted; finished seeds are kept in {folder.path}. Go on '
            f'with the same command.',
            err=True,
        )
        raise typer.Exit(130) from None
    if json:
        print_json(summary)
    else:
        for part in ('valid', 'test'):
            typer.echo(f'{part.title()}: {ogb.mean_text(summary, part)}')
    if summary['failed']:
        raise typer.Exit(1)


@app.command('submit')
def submit_command(
    directory: Annotated[
        Path, typer.Argument(metavar='FOLDER', help='The folder of a run.')
    ],
    contact: Annotated[str, typer.Option(help='Name and address.')] = '',
    code: Annotated[str, typer.Option(help='Public repository.')] = '',
    paper: Annotated[str, typer.Option(help='Link to the paper.')] = '',
    json: Json = False,
) -> None:
    """Check an entry and write submission.txt and submission.json."""
    from torch_energy_graph.bench import ogb

    folder = ogb.OGBFolder(directory)
    answers = {'contact': contact, 'code': code, 'paper': paper}
    summary, text = ogb.submit(folder, answers)
    if json:
        print_json(summary)
    else:
        typer.echo(text, nl=False)
    blank = [f'--{key}' for key, value in answers.items() if not value]
    if blank:
        typer.echo(f'Left blank: {", ".join(blank)}.', err=True)
    typer.echo(f'Written to {directory / "submission.txt"}', err=True)


class _Shown(ExitStack):
    """Prints a run: all that is shared, a bar of epochs, a line a seed."""

    def __init__(self, epochs: int, quiet: bool) -> None:
        super().__init__()
        from tqdm import tqdm

        # disable=None: no bar unless standard error is a terminal
        self.bar = self.enter_context(
            tqdm(total=epochs, unit='epoch', disable=None, leave=False)
        )
        self.file = sys.stderr if quiet else sys.stdout

    def start(self, about: dict[str, Any]) -> None:
        """Print what the rules want to be printed of an entry."""
        versions = about['versions']
        for title, value in {
            'Dataset': about['dataset'],
            'Versions': ', '.join(f'{k} {v}' for k, v in versions.items()),
            'Commit': about['git'],
            'Device': about['hardware'],
            'Settings': dumps(about['settings']),
            'Parameters': about['num_params'],
        }.items():
            print(f'{title}: {value}', file=self.file)

    def epoch(self, seed: int, record: dict[str, Any]) -> None:
        """Move the bar."""
        if record['epoch'] == 1:
            self.bar.reset()
            self.bar.set_description(f'seed {seed}')
        if 'valid' in record:
            self.bar.set_postfix(valid=f'{record["valid"]:.4f}')
        self.bar.update()

    def seed(self, row: dict[str, Any]) -> None:
        """Print the line of a seed."""
        if row['status'] == 'ok':
            text = (
                f'best epoch {row["best_epoch"]}, train {row["train"]:.4f}, '
                f'valid {row["valid"]:.4f}, test {row["test"]:.4f}, '
                f'{row["seconds"]:.1f} s, {row["peak_mem_mb"]} MiB'
            )
        else:
            text = f'failed: {row["error"]}'
        self.bar.write(f'Seed {row["seed"]}: {text}', file=self.file)
