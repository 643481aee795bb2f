"""What one core can gather: a small C function, if there is a compiler."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name('gather_ceiling.c')
AHEAD = 12  # rows asked for ahead; more or fewer were not faster


def gather_ceiling(table, index):
    """A call that sums the rows `index` of a table, or None.

    Args:
        table (Tensor): Rows, float32, [N, D].
        index (IntTensor): Which rows, in the order of the sweep, [E].
    """
    compiler = shutil.which('cc') or shutil.which('gcc')
    if compiler is None or table.size(1) % 64:
        return None
    folder = tempfile.TemporaryDirectory()
    library = Path(folder.name, 'ceiling.so')
    flags = ['-O3', '-march=native', '-shared', '-fPIC', '-Wno-psabi']
    command = [compiler, *flags, str(SOURCE), '-o', str(library)]
    if subprocess.run(command, capture_output=True).returncode:
        return None
    function = ctypes.CDLL(str(library)).gather_ceiling
    function.restype = ctypes.c_float
    numbers = (index.numel(), table.size(1), AHEAD)

    def call(keep=folder):
        return function(
            ctypes.c_void_p(table.data_ptr()),
            ctypes.c_void_p(index.data_ptr()),
            *(ctypes.c_int64(n) for n in numbers),
        )

    return call
