"""Loads kernels that NVRTC compiled, and starts them, through the driver."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from . import nvrtc

__all__ = ['Driver', 'Module', 'driver', 'module', 'problem']

_lock = threading.Lock()
_modules: dict[tuple[Any, ...], Module | Exception] = {}


class Driver:
    """The driver's interface, loaded with ctypes.

    Args:
        library (Any): The loaded ``libcuda``.
    """

    def __init__(self, library: Any):
        self._library = library
        self._contexts: dict[int, ctypes.c_void_p] = {}

    def call(self, name: str, *args: Any) -> None:
        """Calls a function; a RuntimeError says what the driver refused."""
        status = getattr(self._library, name)(*args)
        if status != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            reason = (text.value or b'unknown error').decode()
            raise RuntimeError(f'{name} failed: {reason} ({status})')

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Makes the context that PyTorch uses on a device the current one.

        A thread that has not called the CUDA runtime yet has none.
        """
        context = self._contexts.get(device)
        if context is None:
            context = self._contexts[device] = self._primary(device)
        self.call('cuCtxPushCurrent_v2', context)
        try:
            yield
        finally:
            self.call('cuCtxPopCurrent_v2', ctypes.byref(ctypes.c_void_p()))

    def _primary(self, device: int) -> ctypes.c_void_p:
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        self.call('cuInit', 0)
        self.call('cuDeviceGet', ctypes.byref(handle), device)
        # kept as long as the process lives, like PyTorch's own hold on it
        self.call('cuDevicePrimaryCtxRetain', ctypes.byref(context), handle)
        return context


class Module:
    """Compiled kernels on one device; never unloaded.

    Args:
        driver (Driver): The driver.
        device (int): Number of the GPU.
        binary (bytes): What NVRTC made.

    Raises:
        RuntimeError: If the driver does not take the binary.
    """

    def __init__(self, driver: Driver, device: int, binary: bytes):
        self._driver = driver
        self._device = device
        self._handle = ctypes.c_void_p()
        self._functions: dict[str, ctypes.c_void_p] = {}
        with driver.on(device):
            handle = ctypes.byref(self._handle)
            driver.call('cuModuleLoadData', handle, binary)

    def launch(
        self,
        stream: int,
        name: str,
        grid: tuple[int, int],
        threads: int,
        args: ctypes.Structure,
    ) -> None:
        """Starts a kernel with one argument, which is copied at once.

        Args:
            stream (int): Handle of the stream.
            name (str): Of the kernel.
            grid (tuple): Blocks in x and y.
            threads (int): Of a block.
            args (ctypes.Structure): The argument, by value.

        Raises:
            RuntimeError: If the kernel did not start.
        """
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(args))
        with self._driver.on(self._device):
            self._driver.call(
                'cuLaunchKernel',
                self._function(name),
                *(*grid, 1, threads, 1, 1),
                0,  # dynamic shared memory
                ctypes.c_void_p(stream),
                pointers,
                None,
            )

    def _function(self, name: str) -> ctypes.c_void_p:
        function = self._functions.get(name)
        if function is None:
            function = ctypes.c_void_p()
            self._driver.call(
                'cuModuleGetFunction',
                ctypes.byref(function),
                self._handle,
                name.encode(),
            )
            self._functions[name] = function
        return function


@cache
def driver() -> Driver:
    """The driver of this machine.

    Raises:
        OSError: If there is none.
    """
    return Driver(ctypes.CDLL('libcuda.so.1'))


def problem() -> str | None:
    """Why there is no driver, or `None`."""
    try:
        driver()
    except OSError as error:
        return str(error)
    return None


def module(device: int, header: str, *macros: str) -> Module:
    """The kernels of a header on a device, compiled at the first call.

    Args:
        device (int): Number of the GPU.
        header (str): Which file of ``csrc/cuda``.
        macros (str): What to define, which leaves out other kernels.

    Raises:
        RuntimeError: If they cannot be compiled or loaded, at every call.
    """
    key = device, header, *macros
    with _lock:  # one thread compiles, others wait for it
        if key not in _modules:
            try:
                _modules[key] = _compiled(device, header, *macros)
            except (OSError, RuntimeError) as error:
                _modules[key] = error
        found = _modules[key]
    if isinstance(found, Exception):
        raise RuntimeError(f'no CUDA kernels from NVRTC: {found}') from found
    return found


def _compiled(device: int, header: str, *macros: str) -> Module:
    major, minor = torch.cuda.get_device_capability(device)
    binary = nvrtc.cubin(f'sm_{major}{minor}', header, *macros)
    return Module(driver(), device, binary)
