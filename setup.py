"""The native extension; everything else about the package is in pyproject.

TEG_BUILD_EXT   auto: build it if torch and a C++ compiler are there, and go
                on without it if that fails; 1: fail then; 0: do not try.
TEG_CUDA        auto: add the CUDA kernels if nvcc is found and compiles them;
                1: fail if not; 0: CPU kernels only.
TEG_CUDA_ARCHS  compute capabilities, as in '80;90'.
"""

import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCES = Path('torch_energy_graph/csrc')
CUDA_ARCHS = '75;80;90;100;120'
ABI = 'cp310'
# what libtorch 2.10 offers: the oldest version that the binary runs with
TORCH_FLAGS = ['-std=c++17', '-DTORCH_TARGET_VERSION=0x020a000000000000']
KERNEL_FLAGS = [
    *['-std=c++17', '-O3', '-g0', '-Wno-psabi'],
    # no errno and no traps, but infinities and NaN mean what they mean
    *['-fno-math-errno', '-fno-trapping-math'],
]
CUDA_ADDS_TO = ('extra_objects', 'library_dirs', 'libraries')
# a copy of the CPU kernels for each instruction set
X86_CLONES = {
    'v3': ['-march=x86-64-v3', '-DTEG_UNROLL'],
    'v4': ['-march=x86-64-v4', '-DTEG_UNROLL'],
}


def choice(name):
    value = os.environ.get(name, 'auto').lower()
    if value not in ('auto', '0', '1'):
        sys.exit(f'{name} must be auto, 0 or 1 (got {value!r})')
    return value


def say(text):
    print(f'torch_energy_graph: {text}', file=sys.stderr)


def find_nvcc():
    return os.environ.get('CUDACXX') or shutil.which('nvcc')


def on_x86():
    return platform.machine().lower() in ('x86_64', 'amd64')


def extensions():
    wish = choice('TEG_BUILD_EXT')
    if wish == '0':
        return []
    try:
        import torch  # noqa: F401
    except ImportError:
        if wish == '1':
            sys.exit(
                'TEG_BUILD_EXT=1 needs torch at build time: install it first '
                'and use pip install --no-build-isolation'
            )
        say('no torch at build time, installing without native kernels')
        return []
    if choice('TEG_CUDA') == '1' and find_nvcc() is None:
        sys.exit('TEG_CUDA=1 needs nvcc on the PATH, or in CUDACXX')
    extension = Extension(
        'torch_energy_graph._C',
        [str(SOURCES / 'bind.cpp')],
        depends=[str(p) for p in SOURCES.rglob('*') if p.is_file()],
        define_macros=[('Py_LIMITED_API', '0x030a0000')],
        extra_compile_args=[*TORCH_FLAGS, '-O2', '-g0'],
        libraries=['torch_cpu'],
        py_limited_api=True,
        optional=wish == 'auto',
        language='c++',
    )
    return [extension]


class BuildKernels(build_ext):
    """Compiles the kernels once per instruction set, and those for CUDA."""

    def build_extension(self, ext):
        import torch

        root = Path(torch.__file__).parent
        ext.include_dirs.append(str(root / 'include'))
        ext.library_dirs.append(str(root / 'lib'))
        if on_x86():
            ext.define_macros.append(('TEG_X86_CLONES', None))
        try:
            ext.extra_objects = self.cpu_objects()
            if not self.with_cuda(ext):
                super().build_extension(ext)
        except Exception as error:
            if not ext.optional:
                raise
            say(
                f'installing without native kernels, their build failed: '
                f'{error} (TEG_BUILD_EXT=1 makes this an error)'
            )

    def with_cuda(self, ext):
        """Tries to build with the CUDA kernels; says whether it did."""
        nvcc, wish = find_nvcc(), choice('TEG_CUDA')
        if wish == '0' or nvcc is None:
            return False
        before = {n: list(getattr(ext, n)) for n in CUDA_ADDS_TO}
        try:
            self.add_cuda(ext, nvcc)
            super().build_extension(ext)
        except Exception as error:
            if wish == '1':
                raise
            say(f'building without CUDA kernels: {error}')
            for name, value in before.items():
                setattr(ext, name, value)
            return False
        return True

    def cpu_objects(self):
        clones = {'generic': []}
        if on_x86():
            clones.update(X86_CLONES)

        def compiled(clone):
            isa, flags = clone
            return self.compiler.compile(
                [str(SOURCES / 'cpu/kernels.cpp')],
                output_dir=str(Path(self.build_temp) / isa),
                extra_postargs=[*KERNEL_FLAGS, f'-DTEG_ISA={isa}', *flags],
            )

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(
                chain.from_iterable(pool.map(compiled, clones.items()))
            )

    def add_cuda(self, ext, nvcc):
        to = Path(self.build_temp) / 'cuda.o'
        to.parent.mkdir(parents=True, exist_ok=True)
        source = str(SOURCES / 'cuda/bind.cu')
        subprocess.run(
            [nvcc, *nvcc_flags(ext), '-c', source, '-o', str(to)], check=True
        )
        ext.extra_objects.append(str(to))
        ext.library_dirs += [str(path) for path in cuda_libraries(nvcc)]
        # linked statically: no CUDA runtime of a certain version is needed
        ext.libraries += ['cudart_static', 'dl', 'rt', 'pthread']


def nvcc_flags(ext):
    archs = os.environ.get('TEG_CUDA_ARCHS', CUDA_ARCHS).split(';')
    targets = [f'-gencode=arch=compute_{a},code=sm_{a}' for a in archs]
    newest = archs[-1]
    targets.append(f'-gencode=arch=compute_{newest},code=compute_{newest}')
    include = [f'-I{path}' for path in ext.include_dirs]
    return [
        *TORCH_FLAGS,
        *['-O3', '-DUSE_CUDA', '-Xcompiler', '-fPIC'],
        *['--compress-mode=size', f'--threads={os.cpu_count()}'],
        *targets,
        *include,
    ]


def cuda_libraries(nvcc):
    """Folders of the toolkit that hold the static CUDA runtime."""
    root = Path(nvcc).resolve().parent.parent
    found = root.rglob('libcudart_static.a')
    return sorted({path.parent for path in found})


class TaggedWheel(bdist_wheel):
    """A wheel whose tag says what it holds, also when no binary was built."""

    def get_tag(self):
        built = Path(self.bdist_dir).rglob('_C*')
        self.root_is_pure = not any(built)
        if self.root_is_pure:
            return 'py3', 'none', 'any'
        return super().get_tag()


setup(
    ext_modules=extensions(),
    cmdclass={'build_ext': BuildKernels, 'bdist_wheel': TaggedWheel},
    options={'bdist_wheel': {'py_limited_api': ABI}},
)
