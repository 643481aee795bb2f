"""A file of scores that is whole or absent, and whose making can go on.

Rows gather in ``NAME.partial``; ``NAME.partial.json`` says which scores they
are and how much of the file is whole. At the end the file gets its name.
"""

import fcntl
import glob
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from torch_energy_graph.data.tables.table import require_pandas
from torch_energy_graph.train import write_atomic

__all__ = ['ScoreFile', 'check_ending']

_ENDINGS = ('.csv', '.parquet')


def check_ending(path: Path) -> None:
    """ValueError if scores cannot be written under this name."""
    if path.suffix not in _ENDINGS:
        raise ValueError(
            f'expected a file that ends in {" or ".join(_ENDINGS)} (got '
            f"'{path}')"
        )


class ScoreFile:
    """Takes rows until all are there; held by one process at a time.

    Args:
        path (Path): The file, ``.csv`` or ``.parquet``.
        task (str): What is scored and how, in any words: rows of another
            task are not gone on with.

    Attributes:
        num_rows: Number of rows that are stored.
    """

    def __init__(self, path: Path, task: str) -> None:
        check_ending(path)
        self.path, self.task = path, task
        self.partial = path.with_name(f'{path.name}.partial')
        self.state = path.with_name(f'{path.name}.partial.json')
        self.num_rows = 0
        self._file: IO[bytes]

    def __enter__(self) -> 'ScoreFile':
        with self._reported():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.partial, 'ab')
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._check_name()
        except OSError:
            self._file.close()
            raise BlockingIOError(
                f"'{self.partial}' is being written by another process; wait "
                f'for it or choose another file'
            ) from None
        pattern = f'{glob.escape(self.state.name)}.*.tmp'
        for left_over in self.path.parent.glob(pattern):
            left_over.unlink()  # of a process that was killed
        size, self.num_rows = self._stored()
        self._file.truncate(size)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def append(self, rows: Any) -> None:
        """Store more rows, a DataFrame; they are on disk at return."""
        text = rows.to_csv(
            index=False, header=self.num_rows == 0, lineterminator='\n'
        )
        with self._reported():
            self._file.write(text.encode())
            self._file.flush()
            os.fsync(self._file.fileno())
            size = os.fstat(self._file.fileno()).st_size
            num_rows = self.num_rows + len(rows)
            state = {'task': self.task, 'bytes': size, 'rows': num_rows}
            write_atomic(self.state, json.dumps(state) + '\n')
        self.num_rows = num_rows

    def finish(self, ids: list[Any]) -> None:
        """Give the file its name.

        Args:
            ids (list): The ids of all rows, in the types of the result.
        """
        with self._reported():
            if self.path.suffix == '.parquet':
                write_atomic(self.path, self._parquet(ids))
                self.partial.unlink()
            else:
                os.replace(self.partial, self.path)
            self.state.unlink()

    def _check_name(self) -> None:
        """OSError if the file has got its name since it was opened."""
        opened = os.fstat(self._file.fileno())
        if not os.path.samestat(opened, os.stat(self.partial)):
            raise OSError

    def _parquet(self, ids: list[Any]) -> bytes:
        # Python reads numbers exactly, pandas' default has changed over time
        frame = require_pandas().read_csv(
            self.partial, usecols=lambda name: name != 'id', dtype=str
        )
        flagged = frame.pop('flagged') == 'True'
        frame = frame.map(float)
        frame.insert(0, 'id', ids)
        frame.insert(2, 'flagged', flagged)
        data: bytes = frame.to_parquet(index=False)
        return data

    def _stored(self) -> tuple[int, int]:
        """How many bytes and rows of the partial file are whole."""
        try:
            state = json.loads(self.state.read_text(encoding='utf-8'))
        except (FileNotFoundError, ValueError):
            return 0, 0
        size = os.fstat(self._file.fileno()).st_size
        if state.get('task') != self.task or size < state['bytes']:
            return 0, 0
        return state['bytes'], state['rows']

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Say what was to be written, and how to go on."""
        try:
            yield
        except OSError as error:
            hint = 'choose another file'
            if self.num_rows:
                hint = f'the same command goes on after {self.num_rows} rows'
            raise OSError(
                f"cannot write '{self.path}': {error.strerror or error}; "
                f'{hint}'
            ) from error
