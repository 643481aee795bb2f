"""Numbers in MATLAB files of version 5 (MATLAB 5 to 7.2), bounds checked.

SciPy's reader ends the process on some damaged files; this one knows numeric
and sparse matrices only, and raises ValueError.

A file is a header of 128 bytes and elements. An element is a tag (u32 type,
u32 number of bytes) and its data, padded to 8 bytes; up to 4 bytes of data
stand in the tag itself, with the number of bytes in the upper half of the
first word. A matrix is an element of elements: class, shape, name, and values
(of a sparse matrix: rows, column pointers, values); it may be compressed.
"""

import math
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

__all__ = ['read_matrices']

Value = Any  # NDArray, or coo_array for sparse matrices

_HEADER = 128
_VERSION = 0x0100
_LITTLE_ENDIAN = b'IM'
_MATRIX, _COMPRESSED = 14, 15  # types of elements
_SPARSE, _DENSE = 5, range(6, 16)  # classes of matrices
_COMPLEX = 0x08
_PEEK = 1024  # class, shape and name need less
_DTYPES = {
    1: 'i1',
    2: 'u1',
    3: '<i2',
    4: '<u2',
    5: '<i4',
    6: '<u4',
    7: '<f4',
    9: '<f8',
    12: '<i8',
    13: '<u8',
}


def read_matrices(
    content: bytes, wanted: Callable[[str], bool]
) -> dict[str, Value]:
    """Numeric and sparse matrices of a file, those with wanted names.

    Args:
        content (bytes): The file.
        wanted (callable): Whether to read the matrix of a name.

    Raises:
        ValueError: If the file is damaged or of another version.
    """
    if len(content) < _HEADER:
        raise ValueError('it is shorter than the header of a MATLAB file')
    version, order = struct.unpack_from('<H2s', content, 124)
    if version != _VERSION or order != _LITTLE_ENDIAN:
        raise ValueError(
            f'expected a little-endian MATLAB file of version 5 (got version '
            f"{version:#x}, {order!r}); save it again with '-v7'"
        )
    matrices = {}
    for kind, data in _elements(memoryview(content)[_HEADER:]):
        if kind not in (_MATRIX, _COMPRESSED):
            raise ValueError(f'expected matrices (got element type {kind})')
        found = _matrix(data, kind == _COMPRESSED, wanted)
        if found is not None:
            name, value = found
            matrices[name] = value
    return matrices


def _elements(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Type and data of each element, up to the end of the data."""
    at = 0
    while at < len(data):
        if len(data) - at < 8:
            raise ValueError('it ends within the tag of an element')
        kind, size = struct.unpack_from('<II', data, at)
        start = at + 8
        if kind >> 16:  # the data is in the tag
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
        end = start + size
        if end > len(data) or (start == at + 4 and size > 4):
            raise ValueError(
                f'expected {size} bytes of an element (got the '
                f'{len(data) - start} bytes that are left)'
            )
        yield kind, data[start:end]
        # compressed elements are not padded
        at = end if kind == _COMPRESSED else at + -(-(end - at) // 8) * 8


def _matrix(
    data: memoryview, compressed: bool, wanted: Callable[[str], bool]
) -> tuple[str, Value] | None:
    """Name and value, or None for what is of no interest."""
    stream, size = zlib.decompressobj(), len(data)
    if compressed:
        tag = stream.decompress(data, 8)
        kind, size = struct.unpack('<II', tag.ljust(8, b'\x00'))
        if kind != _MATRIX:
            raise ValueError(f'expected a matrix (got element type {kind})')
        data = memoryview(
            stream.decompress(stream.unconsumed_tail, min(size, _PEEK))
        )
    parts = _elements(data)
    flags, shape, name = (_numbers(*_next(parts)) for _ in range(3))
    title = name.tobytes().decode('latin-1')
    if flags.dtype != np.uint32 or flags.size != 2 or shape.min(initial=0) < 0:
        raise ValueError(f'expected class and shape of a matrix {title!r}')
    kind = int(flags[0]) & 0xFF
    if not wanted(title) or (kind != _SPARSE and kind not in _DENSE):
        return None
    if int(flags[0]) >> 8 & _COMPLEX:
        raise ValueError(f"expected real numbers in '{title}'")
    if compressed and size > _PEEK:
        rest = stream.decompress(stream.unconsumed_tail, size - _PEEK)
        parts = _elements(memoryview(bytes(data) + rest))
        for _ in range(3):
            next(parts)
    sizes = tuple(int(length) for length in shape)
    if kind == _SPARSE:
        return title, _sparse(parts, sizes, title)
    values = _numbers(*_next(parts))
    if values.size != math.prod(sizes):
        raise ValueError(
            f"expected {list(sizes)} numbers in '{title}' (got {values.size})"
        )
    return title, values.reshape(sizes, order='F')


def _sparse(
    parts: Iterator[tuple[int, memoryview]], shape: tuple[int, ...], name: str
) -> coo_array:
    rows, pointers, values = (_numbers(*_next(parts)) for _ in range(3))
    if {rows.dtype.kind, pointers.dtype.kind} - {*'iu'}:
        raise ValueError(f"expected whole numbers as indices of '{name}'")
    if len(shape) != 2 or pointers.size != shape[1] + 1:
        raise ValueError(
            f"expected a pointer for each column of '{name}' of shape "
            f'{list(shape)} (got {pointers.size} pointers)'
        )
    pointers = pointers.astype(np.int64)
    counts = pointers[1:] - pointers[:-1]  # entries of each column
    total = int(pointers[-1])
    room = min(rows.size, values.size)  # may be more than is used
    rises = pointers[0] == 0 and counts.min(initial=0) >= 0
    if not rises or pointers.max() > room:
        raise ValueError(
            f'expected pointers that rise from 0 to at most {room}, the '
            f"number of entries, in '{name}'"
        )
    row = rows[:total].astype(np.int64)
    if total and not 0 <= row.min() <= row.max() < shape[0]:
        raise ValueError(
            f"expected rows 0 to {shape[0] - 1} in '{name}' (got "
            f'{row.min()} to {row.max()})'
        )
    column = np.repeat(np.arange(shape[1]), counts)
    return coo_array((values[:total], (row, column)), shape)


def _next(parts: Iterator[tuple[int, memoryview]]) -> tuple[int, memoryview]:
    try:
        return next(parts)
    except StopIteration:
        raise ValueError('a matrix ends before its values') from None


def _numbers(kind: int, data: memoryview) -> NDArray[Any]:
    if kind not in _DTYPES:
        raise ValueError(f'expected numbers (got element type {kind})')
    dtype = np.dtype(_DTYPES[kind])
    if len(data) % dtype.itemsize:
        raise ValueError(f'expected whole numbers of {dtype.itemsize} bytes')
    return np.frombuffer(data, dtype)
