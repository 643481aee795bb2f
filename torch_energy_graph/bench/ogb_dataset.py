"""OGB's own loader, without its prompts, pickles and version check.

OGB asks on standard input before it downloads or replaces files, looks for a
newer OGB over the network when it is imported, and its processed file can only
be read by unpickling on recent versions of torch. The class below keeps the
reading of the raw files as it is and replaces the rest.
"""

import os
import pickle
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

__all__ = ['Evaluator', 'OGBDataset', 'OGB_VERSION']


def _import_ogb() -> Any:
    """Import OGB as if ``outdated`` were absent, which it copes with."""
    before = sys.modules.get('outdated')
    sys.modules['outdated'] = None  # type: ignore[assignment]
    try:
        import ogb.nodeproppred
    finally:
        del sys.modules['outdated']
        if before is not None:
            sys.modules['outdated'] = before
    return ogb


_ogb = _import_ogb()
OGB_VERSION: str = _ogb.__version__
Evaluator: Any = _ogb.nodeproppred.Evaluator
_Loader: Any = _ogb.nodeproppred.PygNodePropPredDataset
# all that OGB writes into its processed file beside tensors
PROCESSED: list[Any] = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
# and the arrays of a split, as saved with any version of NumPy
_RECONSTRUCT = np.empty(0).__reduce__()[0]
SPLIT: list[Any] = [
    (_RECONSTRUCT, 'numpy.core.multiarray._reconstruct'),
    (_RECONSTRUCT, 'numpy._core.multiarray._reconstruct'),
    np.ndarray,
    np.dtype,
    np.dtypes.Int64DType,
]
# what torch.load raises of a file that is damaged or not allowed
UNREADABLE = (pickle.UnpicklingError, RuntimeError, EOFError)


class OGBDataset(_Loader):
    """A node property dataset of OGB, from the raw files in a folder.

    Args:
        name (str): Name of the dataset, such as ``ogbn-arxiv``.
        root (Path): Folder in which OGB keeps ``ogbn_arxiv``.
        download (bool): Fetch what is absent instead of raising.

    Raises:
        FileNotFoundError: If files are absent and may not be fetched.
        ValueError: If the files are those of another release, or if the
            processed file holds more than a graph.
    """

    def __init__(self, name: str, root: Path, download: bool = False) -> None:
        self.may_download = download
        self._check_release(name, root)
        try:
            with torch.serialization.safe_globals(PROCESSED):
                super().__init__(name, root=str(root))
        except UNREADABLE as error:
            raise _unreadable(self.processed_paths[0], error) from error

    def _check_release(self, name: str, root: Path) -> None:
        """OGB would ask whether it may delete the folder."""
        # as OGB chooses among its folders
        folder = root / f'{name.replace("-", "_")}_pyg'
        if not folder.exists():
            folder = root / name.replace('-', '_')
        release = f'RELEASE_v{_release(name)}.txt'
        if folder.is_dir() and not (folder / release).exists():
            raise ValueError(
                f"'{folder}' is not the release of {name} that OGB "
                f'{OGB_VERSION} expects (no {release}); move it away and '
                f'give --download'
            )

    def _process(self) -> None:
        # PyG's version unpickles two more files of the folder
        if Path(self.processed_paths[0]).exists():
            return
        try:
            Path(self.processed_dir).mkdir(exist_ok=True)
        except OSError as error:
            raise OSError(
                f"cannot write '{self.processed_dir}' ({error.strerror}); "
                f'copy the folder of {self.name} to a place that you may '
                f'write to and give it as --root'
            ) from error
        try:
            self.process()
        except (OSError, LookupError, RuntimeError, ValueError) as error:
            raise OSError(
                f"cannot read '{self.raw_dir}' ({error}); move the folder of "
                f'{self.name} away and give --download'
            ) from error

    def _download(self) -> None:
        missing = [p for p in self.raw_paths if not Path(p).exists()]
        if missing and not self.may_download:
            raise FileNotFoundError(
                f"no file '{missing[0]}' of {self.name}; give another --root, "
                f'or --download to fetch the dataset'
            )
        if missing:
            self.download()

    def download(self) -> None:
        """Fetch and unpack the archive; nothing is asked."""
        root, folder = Path(self.original_root), Path(self.root)
        if folder.exists():
            raise FileExistsError(
                f"'{folder}' exists without '{self.raw_paths[0]}'; move it "
                f'away and start again'
            )
        archive = root / Path(self.meta_info['url']).name
        _fetch(self.meta_info['url'], archive)
        unpacked = root / self.download_name
        try:
            with zipfile.ZipFile(archive) as file:
                file.extractall(root)
        except zipfile.BadZipFile as error:
            raise ValueError(
                f"'{archive}' is damaged ({error}); it is deleted, start again"
            ) from None
        finally:
            archive.unlink()
        unpacked.rename(folder)

    def get_idx_split(self, split_type: str | None = None) -> dict[str, Any]:
        """Return OGB's split; index tensors by train, valid and test."""
        path = Path(
            self.root, 'split', split_type or str(self.meta_info['split'])
        )
        try:
            with torch.serialization.safe_globals(SPLIT):
                found: dict[str, Any] = super().get_idx_split(split_type)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"no file '{error.filename}' of {self.name}; move its folder "
                f'away and give --download'
            ) from None
        except UNREADABLE as error:
            raise _unreadable(path / 'split_dict.pt', error) from error
        return {key: _index(value) for key, value in found.items()}


def _release(name: str) -> str:
    import pandas as pd

    table = Path(_ogb.nodeproppred.__file__).with_name('master.csv')
    return str(pd.read_csv(table, index_col=0)[name]['version'])


def _index(value: Any) -> Tensor:
    return torch.as_tensor(value, dtype=torch.long)


def _unreadable(path: str | os.PathLike[str], error: Exception) -> Exception:
    """Return what to say of a file that torch refuses to read."""
    return ValueError(
        f"cannot read '{path}': it is damaged or holds more than tensors "
        f'({type(error).__name__}); delete it, and it is made again from the '
        f'raw files'
    )


def _fetch(url: str, path: Path) -> None:
    """Download a file; it has its name only when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f'{path.name}.part')
    with urlopen(url) as source, open(part, 'wb') as target:
        size = int(source.headers.get('Content-Length') or 0)
        with tqdm.wrapattr(
            source, 'read', total=size, desc=path.name, disable=None
        ) as reader:
            shutil.copyfileobj(reader, target)
    if size and part.stat().st_size != size:
        raise ConnectionError(
            f"'{url}' ended after {part.stat().st_size} of {size} bytes; "
            f'start again'
        )
    os.replace(part, path)
