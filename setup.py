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
        try:
            if platform.machine().lower() in ('x86_64', 'amd64'):
                ext.define_macros.append(('TEG_X86_CLONES', None))
            ext.extra_objects = self.cpu_objects() + self.cuda_objects(ext)
            super().build_extension(ext)
        except Exception as error:
            if not ext.optional:
                raise
            say(
                f'installing without native kernels, their build failed: '
                f'{error} (TEG_BUILD_EXT=1 makes this an error)'
            )

    def cpu_objects(self):
        clones = {'generic': []}
        if platform.machine().lower() in ('x86_64', 'amd64'):
            clones.update(X86_CLONES)

        def compiled(clone):
            isa, flags = clone
            return self.compiler.compile(
                [str(SOURCES / 'cpu/kernels.cpp')],
                output_dir=str(Path(self.build_temp) / isa),
                extra_postargs=[*KERNEL_FLAGS, f'-DTEG_ISA={isa}', *flags],
            )

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return sum(pool.map(compiled, clones.items()), [])

    def cuda_objects(self, ext):
        wish = choice('TEG_CUDA')
        source = SOURCES / 'cuda/bind.cu'
        nvcc = os.environ.get('CUDACXX') or shutil.which('nvcc')
        if wish == '0':
            return []
        if nvcc is None:
            if wish == '1':
                raise RuntimeError('TEG_CUDA=1 needs nvcc on the PATH')
            return []
        to = Path(self.build_temp) / 'cuda.o'
        to.parent.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(
                [nvcc, *nvcc_flags(ext), '-c', str(source), '-o', str(to)],
                check=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            if wish == '1':
                raise
            say(f'building without CUDA kernels, nvcc failed: {error}')
            return []
        ext.library_dirs += [str(p) for p in cuda_libraries(nvcc)]
        ext.libraries += ['cudart_static', 'dl', 'rt', 'pthread']
        return [str(to)]


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
