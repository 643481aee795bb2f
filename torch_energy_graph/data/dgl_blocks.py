"""The small blocks of DGL's files: numbers, strings, arrays, dictionaries."""

import math
import struct
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ['Array', 'BlockReader']

Array = NDArray[Any]
T = TypeVar('T')

_ARRAY = 0xDD5E40F096B4A13F
_CPU = 1
_MAX_DIMS = 32
_DTYPES = {
    (0, 8): 'i1',
    (0, 16): '<i2',
    (0, 32): '<i4',
    (0, 64): '<i8',
    (1, 1): '?',
    (1, 8): 'u1',
    (1, 16): '<u2',
    (1, 32): '<u4',
    (1, 64): '<u8',
    (2, 16): '<f2',
    (2, 32): '<f4',
    (2, 64): '<f8',
}


class BlockReader:
    """Typed reads that fail before they pass the end of the file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size

    @property
    def position(self) -> int:
        """Offset of the next byte."""
        return self._file.tell()

    def move(self, position: int) -> None:
        """Continue at an offset of the file."""
        if not 0 <= position <= self._size:
            raise ValueError(
                f'expected an offset up to {self._size}, the size of the '
                f'file (got {position})'
            )
        self._file.seek(position)

    def require(self, num_bytes: int) -> None:
        """Raise ValueError if fewer bytes than these are left."""
        left = self._size - self.position
        if num_bytes > left:
            raise ValueError(
                f'expected {num_bytes} bytes at offset {self.position} (got '
                f'the {left} bytes that are left)'
            )

    def numbers(self, form: str) -> tuple[int, ...]:
        """Integers of the types that :mod:`struct` names in `form`."""
        length = struct.calcsize('<' + form)
        self.require(length)
        return struct.unpack('<' + form, self._file.read(length))

    def number(self, form: str = 'Q') -> int:
        """One integer, u64 by default."""
        return self.numbers(form)[0]

    def magic(self, expected: int, what: str) -> None:
        """Pass the number that each block of a kind begins with."""
        at, found = self.position, self.number()
        if found != expected:
            raise ValueError(
                f'expected a {what} with magic number {expected:#x} at '
                f'offset {at} (got {found:#x})'
            )

    def string(self) -> str:
        """STRING: its length and its bytes."""
        length = self.number()
        self.require(length)
        return self._file.read(length).decode('utf-8')

    def many(self, read: Callable[[], T]) -> list[T]:
        """A count and as many blocks."""
        # each block takes bytes of the file, so a false count ends with it
        return [read() for _ in range(self.number())]

    def dictionary(self) -> dict[str, Array]:
        """DICT: a count, and as many names with arrays."""
        return dict(self.many(lambda: (self.string(), self.array())))

    def array(self) -> Array:
        """ARRAY in the shape and the type of the file."""
        dtype, shape = self._array_header()
        stored = np.dtype('u1') if dtype == np.bool_ else dtype
        data: Array = np.fromfile(self._file, stored, math.prod(shape))
        return data.reshape(shape).astype(dtype, copy=False)

    def skip_array(self) -> None:
        """Pass an array without reading its data."""
        dtype, shape = self._array_header()
        self.move(self.position + math.prod(shape) * dtype.itemsize)

    def _array_header(self) -> tuple[np.dtype[Any], tuple[int, ...]]:
        self.magic(_ARRAY, 'array')
        _, device, _, ndim, kind, bits, lanes = self.numbers('QiiiBBH')
        if device != _CPU or lanes != 1 or (kind, bits) not in _DTYPES:
            raise ValueError(
                f'expected an array of numbers on the CPU (got device '
                f'{device}, kind {kind} with {bits} bits and {lanes} lanes)'
            )
        if not 0 <= ndim <= _MAX_DIMS:
            raise ValueError(
                f'expected 0 to {_MAX_DIMS} dimensions (got {ndim})'
            )
        shape, claimed = self.numbers(f'{ndim}q'), self.number('q')
        dtype = np.dtype(_DTYPES[kind, bits])
        num_bytes = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or claimed != num_bytes:
            raise ValueError(
                f'expected {num_bytes} bytes for an array of shape '
                f'{list(shape)} of {dtype} (got {claimed})'
            )
        self.require(num_bytes)
        return dtype, shape
