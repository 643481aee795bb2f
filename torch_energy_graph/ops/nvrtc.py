"""Compiles the CUDA kernels at run time, once per machine.

For a PyTorch with CUDA whose binary of this package holds no kernels for the
GPU at hand: NVRTC, which comes with PyTorch, compiles the same source. What
it made is kept in ``$XDG_CACHE_HOME/torch_energy_graph/nvrtc`` (by default
``~/.cache``), one file per source, architecture, version and choice of
kernels.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import logging
import os
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch

__all__ = ['Compiler', 'compiler', 'cubin', 'problem']

_log = logging.getLogger('torch_energy_graph')
_DIGEST = hashlib.sha256().digest_size


class Compiler:
    """NVRTC, loaded with ctypes.

    Args:
        library (Any): The loaded ``libnvrtc``.
    """

    def __init__(self, library: Any):
        self._library = library
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call('nvrtcVersion', ctypes.byref(major), ctypes.byref(minor))
        self.version = f'{major.value}.{minor.value}'

    def compile(
        self, source: str, headers: dict[str, str], options: Sequence[str]
    ) -> bytes:
        """Compiles a text to a binary for one architecture.

        Args:
            source (str): The text.
            headers (dict): Texts by the name that ``#include`` gives them.
            options (list): For NVRTC, as ``--gpu-architecture=sm_90``.

        Raises:
            RuntimeError: If it does not compile, with NVRTC's log.
        """
        program = ctypes.c_void_p()
        names, texts = headers.keys(), headers.values()
        self._call(
            'nvrtcCreateProgram',
            ctypes.byref(program),
            source.encode(),
            b'torch_energy_graph.cu',
            len(headers),
            _strings(texts),
            _strings(names),
        )
        try:
            try:
                given = _strings(options)
                self._call('nvrtcCompileProgram', program, len(options), given)
            except RuntimeError as error:
                log = self._read('ProgramLog', program).rstrip(b'\0').decode()
                raise RuntimeError(f'{error}\n{log}') from None
            return self._read('CUBIN', program)
        finally:
            self._call('nvrtcDestroyProgram', ctypes.byref(program))

    def _read(self, what: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f'nvrtcGet{what}Size', program, ctypes.byref(size))
        out = ctypes.create_string_buffer(size.value)
        self._call(f'nvrtcGet{what}', program, out)
        return out.raw

    def _call(self, name: str, *args: Any) -> None:
        status = getattr(self._library, name)(*args)
        if status != 0:
            describe = self._library.nvrtcGetErrorString
            describe.restype = ctypes.c_char_p
            raise RuntimeError(f'{name} failed: {describe(status).decode()}')


@cache
def compiler() -> Compiler:
    """NVRTC of PyTorch's CUDA wheels, else that of the system.

    Raises:
        OSError: If there is none.
    """
    major = (torch.version.cuda or '').split('.')[0]
    for path in _installed(major):
        # NVRTC looks for its other half by name only
        for other in path.parent.glob(
            f'libnvrtc-builtins.so.{path.suffix[1:]}*'
        ):
            ctypes.CDLL(str(other), mode=ctypes.RTLD_GLOBAL)
        return Compiler(ctypes.CDLL(str(path)))
    for name in [major] if major else ['13', '12']:
        try:
            return Compiler(ctypes.CDLL(f'libnvrtc.so.{name}'))
        except OSError:
            continue
    raise OSError(
        f'no libnvrtc.so.{major or "*"} (it comes with PyTorch for CUDA; or '
        f'pip install nvidia-cuda-nvrtc)'
    )


def problem() -> str | None:
    """Why nothing can be compiled, or `None`."""
    try:
        compiler()
    except (OSError, RuntimeError) as error:
        return str(error)
    return None


def cubin(arch: str, header: str, *macros: str) -> bytes:
    """Kernels for one architecture, from the cache or newly compiled.

    Args:
        arch (str): As ``'sm_90'``.
        header (str): Which file of ``csrc/cuda`` to compile.
        macros (str): What to define, as ``'TEG_ONLY_F32'``; see
            ``csrc/cuda/attention.cuh``.

    Raises:
        RuntimeError: If it does not compile, with NVRTC's log.
        OSError: If there is no NVRTC.
    """
    nvrtc = compiler()
    headers = _sources()
    source = f'#include "{header}"\n'
    options = [f'--gpu-architecture={arch}', '--std=c++17']
    options += [f'--define-macro={macro}' for macro in macros]
    path = _folder() / f'{_key(headers, source, options, nvrtc.version)}.cubin'
    binary = _load(path)
    if binary is None:
        _log.info('compiling CUDA kernels for %s (%s)', arch, header)
        binary = nvrtc.compile(source, headers, options)
        _save(path, binary)
    return binary


def _installed(major: str) -> list[Path]:
    """Libraries of that version in pip's packages, the newest first."""
    spec = importlib.util.find_spec('nvidia')
    roots = list(spec.submodule_search_locations or ()) if spec else []
    pattern = f'*/lib/libnvrtc.so.{major or "*"}'
    found = (path for root in roots for path in Path(root).glob(pattern))
    return sorted(found, key=lambda path: path.name, reverse=True)


@cache
def _sources() -> dict[str, str]:
    """Texts of the kernels by file name."""
    folder = resources.files('torch_energy_graph') / 'csrc' / 'cuda'
    files = (f for f in folder.iterdir() if f.name.endswith('.cuh'))
    return {f.name: f.read_text('utf-8') for f in files}


def _folder() -> Path:
    root = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    return Path(root) / 'torch_energy_graph' / 'nvrtc'


def _key(
    headers: dict[str, str], source: str, options: list[str], version: str
) -> str:
    parts = *sorted(headers.items()), source, *options, version
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _load(path: Path) -> bytes | None:
    """The binary in a file, unless that is missing or damaged."""
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    binary, digest = whole[:-_DIGEST], whole[-_DIGEST:]
    return binary if hashlib.sha256(binary).digest() == digest else None


def _save(path: Path, binary: bytes) -> None:
    """Writes at once, so that other processes read all of it or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix='.new-', delete=False
        ) as file:
            file.write(binary + hashlib.sha256(binary).digest())
        os.replace(file.name, path)
    except OSError as error:  # the next process compiles again
        _log.info('compiled kernels are not kept: %s', error)


def _strings(values: Any) -> ctypes.Array[ctypes.c_char_p]:
    texts = [value.encode() for value in values]
    return (ctypes.c_char_p * len(texts))(*texts)
