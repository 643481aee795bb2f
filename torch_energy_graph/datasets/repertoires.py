"""Immune repertoires: bags of amino-acid sequences, read when asked for."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_energy_graph.datasets.bags import Bags

__all__ = ['AMINO_ACIDS', 'Repertoires', 'read_repertoire']

#: The symbols in the order of their numbers.
AMINO_ACIDS = 'ACDEFGHIKLMNPQRSTVWY'

_NUMBER = np.full(256, -2, np.int8)
_NUMBER[np.frombuffer(AMINO_ACIDS.encode(), np.uint8)] = np.arange(20)
_NUMBER[0] = -1  # numpy pads byte strings with zeros
_CHUNK = 65536  # rows in memory as text at a time


@dataclass(frozen=True, eq=False)
class Repertoires:
    r"""Files of sequences, one bag each, and a table with their classes.

    Files are read by :meth:`select` and not kept, so that a training needs
    memory for one batch of bags. Columns are separated by tabs and have
    names in the first row, as DeepRC's files: the table has one row per
    file.

    Args:
        folder (Path): Folder of the files.
        files (sequence): Their names.
        y (LongTensor): Class of every file, :math:`[B]`.
        max_length (int, optional): Length of the symbol rows; a longer
            sequence is an error. (default: :obj:`40`)
    """

    folder: Path
    files: Sequence[str]
    y: Tensor
    max_length: int = 40

    @classmethod
    def from_table(
        cls,
        table: str | Path,
        target: str,
        positive: str,
        file: str = 'ID',
        folder: str | Path | None = None,
        max_length: int = 40,
    ) -> 'Repertoires':
        r"""Repertoires whose class is 1 where a column has a value.

        Args:
            table (str or Path): The table.
            target (str): Name of the column.
            positive (str): Its value in class 1; all others are class 0.
            file (str, optional): Column with the names of the files.
                (default: :obj:`"ID"`)
            folder (str or Path, optional): Folder of the files.
                (default: :obj:`repertoires` beside the table)
            max_length (int, optional): See above. (default: :obj:`40`)
        """
        table = Path(table)
        with open(table, newline='', encoding='utf-8') as lines:
            rows = csv.DictReader(lines, delimiter='\t')
            _check_columns(rows.fieldnames, (file, target), table)
            pairs = [(row[file], row[target] == positive) for row in rows]
        y = torch.tensor([label for _, label in pairs], dtype=torch.long)
        if y.unique().numel() != 2:
            raise ValueError(
                f"expected rows of both classes in '{table}' (got "
                f'{int(y.sum())} of {len(pairs)} rows with '
                f'{target} = {positive!r})'
            )
        folder = table.parent / 'repertoires' if folder is None else folder
        names = tuple(name for name, _ in pairs)
        return cls(Path(folder), names, y, max_length)

    def __len__(self) -> int:
        return len(self.files)

    def select(self, index: Tensor) -> Bags:
        r"""Read these files; instances are symbol rows :math:`[N, L]`."""
        parts = [
            read_repertoire(self.folder / self.files[i], self.max_length)[0]
            for i in index.tolist()
        ]
        sizes = torch.tensor([0, *[part.size(0) for part in parts]])
        return Bags(
            torch.cat(parts),
            sizes.cumsum(0),
            self.y[index],
            str(self.folder),
        )


def read_repertoire(
    path: str | Path,
    max_length: int = 40,
    sequence: str = 'amino_acid',
    count: str = 'templates',
) -> tuple[Tensor, Tensor]:
    r"""Sequences of one file and how often each was seen.

    Args:
        path (str or Path): Values separated by tabs, with names in the first
            row.
        max_length (int, optional): L. (default: :obj:`40`)
        sequence (str, optional): Column of the sequences.
            (default: :obj:`"amino_acid"`)
        count (str, optional): Column of the counts.
            (default: :obj:`"templates"`)

    Returns:
        tuple: Numbers of the symbols in :obj:`AMINO_ACIDS`, int8
        :math:`[N, L]` with -1 behind the end, and counts :math:`[N]`.

    Raises:
        ValueError: If a column is missing, a sequence is empty, too long or
            has another symbol, or a count is not a number.
    """
    path = Path(path)
    symbols = [np.empty((0, max_length), np.int8)]
    counts = [np.empty(0, np.int64)]
    with open(path, newline='', encoding='utf-8') as lines:
        rows = csv.DictReader(lines, delimiter='\t')
        _check_columns(rows.fieldnames, (sequence, count), path)
        pairs = ((row[sequence], row[count]) for row in rows)
        while chunk := list(islice(pairs, _CHUNK)):
            line = 2 + sum(map(len, counts))
            where = f"'{path}', line"
            texts, numbers = zip(*chunk, strict=True)
            symbols.append(_encode(texts, max_length, where, line))
            counts.append(_whole(numbers, count, where, line))
    return (
        torch.from_numpy(np.concatenate(symbols)),
        torch.from_numpy(np.concatenate(counts)),
    )


def _encode(
    texts: Sequence[str], max_length: int, where: str, line: int
) -> NDArray[np.int8]:
    """Numbers of symbols [M, L]."""
    for i, text in enumerate(texts):
        if not text or not text.isascii() or len(text) > max_length:
            raise ValueError(
                f'expected a sequence of 1 to {max_length} symbols in '
                f'{where} {line + i} (got {len(text or "")}: {text!r}); '
                f"leave it out, or raise 'max_length'"
            )
    table = np.array(texts, dtype=f'S{max_length}')
    found = _NUMBER[table.view(np.uint8).reshape(len(texts), max_length)]
    bad = (found == -2).any(1)
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(
            f'expected the symbols {AMINO_ACIDS} in {where} {line + i} (got '
            f'{texts[i]!r}); leave such sequences out'
        )
    return found


def _whole(
    numbers: Sequence[str], name: str, where: str, line: int
) -> NDArray[np.int64]:
    for i, number in enumerate(numbers):
        if not (number or '').isdecimal():
            raise ValueError(
                f"expected a count in '{name}' of {where} {line + i} (got "
                f'{number!r})'
            )
    return np.array(numbers, dtype=np.int64)


def _check_columns(
    names: Sequence[str] | None, wanted: Sequence[str], path: Path
) -> None:
    missing = [name for name in wanted if name not in (names or ())]
    if missing:
        raise ValueError(
            f"expected columns {', '.join(missing)} in '{path}', separated "
            f'by tabs (got {", ".join(names or ()) or "none"})'
        )
