"""Tables from CSV and Parquet files: whole, or a clear error."""

import csv
import gzip
import warnings
from pathlib import Path
from typing import Any

from torch_energy_graph.data.tables.table import Table, require_pandas

__all__ = ['read_table']

_PARQUET = ('.parquet', '.pq')
_FIRST_ROW = 2  # row 1 of a CSV file holds the names, as a spreadsheet counts


def read_table(path: Path, sep: str = ',') -> Table:
    """Read ``.parquet`` with pyarrow, everything else as CSV in UTF-8.

    Cells of a CSV file stay text, without blanks around them; a byte order
    mark is passed over, empty rows are left out, and cells that a row lacks
    at its end are empty. A file whose name ends in ``.gz`` is unpacked.

    Args:
        path (Path): The file.
        sep (str, optional): What separates the cells of a CSV file.
            (default: :obj:`','`)

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no table.
    """
    if not path.is_file():
        what = 'a folder' if path.is_dir() else 'absent'
        raise FileNotFoundError(
            f"expected a table in '{path}' (the path is {what}); give the "
            f'path of a CSV or Parquet file'
        )
    if path.suffix.lower() in _PARQUET:
        return _read_parquet(path)
    return _read_csv(path, sep)


def _read_parquet(path: Path) -> Table:
    pandas = require_pandas()
    try:
        frame = pandas.read_parquet(path)
    except ImportError as error:
        raise ImportError(
            f"'{path}' needs pyarrow; pip install "
            f"'torch-energy-graph[pandas]', or give a CSV file"
        ) from error
    except (OSError, ValueError) as error:  # pyarrow's errors are of these
        raise ValueError(
            f"'{path}' is no Parquet table ({error}); write it again, or "
            f'give a CSV file'
        ) from error
    if frame.index.name is not None:  # pandas stores an index as a column
        frame = frame.reset_index()
    frame.columns = [str(name) for name in frame.columns]
    _check_header(frame.columns, path)
    return Table.of(frame, str(path), first=1)


def _read_csv(path: Path, sep: str) -> Table:
    try:
        names = _header(path, sep)
        frame = _cells(path, sep, names)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"'{path}' is not UTF-8 (byte {error.object[error.start]:#04x}); "
            f"save it as UTF-8, in spreadsheets 'CSV UTF-8'"
        ) from error
    except (csv.Error, EOFError, OSError) as error:
        raise ValueError(f"cannot read '{path}': {error}") from error
    frame = frame.apply(lambda column: column.str.strip())
    table = Table.of(frame, str(path), first=_FIRST_ROW)
    full = (frame != '').any(axis=1).to_numpy()  # [N]
    return table if full.all() else table.take(full.nonzero()[0])


def _header(path: Path, sep: str) -> list[str]:
    opened: Any = gzip.open if path.suffix.lower() == '.gz' else open
    with opened(path, 'rt', encoding='utf-8-sig', newline='') as file:
        row = next(csv.reader(file, delimiter=sep), None)
    if row is None:
        raise ValueError(
            f"'{path}' is empty; its first row has to name the columns"
        )
    names = [name.strip() for name in row]
    if not any(names):
        raise ValueError(
            f"'{path}', row 1: the first row is blank; it has to name the "
            f'columns'
        )
    _check_header(names, path)
    other = next((s for s in ';\t|,' if s != sep and s in names[0]), None)
    if len(names) == 1 and other is not None:
        raise ValueError(
            f"'{path}', row 1: there is one column, {names[0]!r}; if "
            f'{other!r} separates the cells, use sep={other!r}'
        )
    return names


def _check_header(names: Any, path: Path) -> None:
    seen: set[str] = set()
    for number, name in enumerate(names, start=1):
        if not name:
            raise ValueError(
                f"'{path}', row 1: column {number} has no name; name or "
                f'delete it (pandas: to_csv(..., index=False))'
            )
        if name in seen:
            raise ValueError(
                f"'{path}', row 1: two columns are named '{name}'; rename one"
            )
        seen.add(name)


def _cells(path: Path, sep: str, names: list[str]) -> Any:
    pandas = require_pandas()
    with warnings.catch_warnings():
        # rows that are all too long are cut with a warning only
        warnings.simplefilter('error', pandas.errors.ParserWarning)
        try:
            return pandas.read_csv(
                path,
                sep=sep,
                header=0,
                names=names,
                index_col=False,
                dtype=str,
                na_filter=False,
                skip_blank_lines=False,
                encoding='utf-8-sig',
            )
        except (
            pandas.errors.ParserError,
            pandas.errors.ParserWarning,
        ) as error:
            reason = str(error).removeprefix('Error tokenizing data. ')
            raise ValueError(
                f"'{path}': rows differ in their number of cells, or a quote "
                f'is not closed ({reason.strip()}); put text that holds '
                f'{sep!r} in double quotes'
            ) from error
