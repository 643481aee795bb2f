"""Fetching the public files of node signals, compared by checksum."""

import hashlib
import os
import urllib.request
from pathlib import Path

from torch_energy_graph.datasets.roots import Root, data_roots

__all__ = ['fetch_temporal']

URL = (
    'https://raw.githubusercontent.com/benedekrozemberczki/'
    'pytorch_geometric_temporal/master/dataset/{0}.json'
)
SHA256 = {
    'chickenpox': (
        '724b48cfb274b2ecbb855bdb99b970b5ef9dd3671694fa477435dc1e08293735'
    ),
    'england_covid': (
        '497056cc4585b58951fd5cd17554fe0c535f68ea0c907a5b5727ae30e3913450'
    ),
    'pedalme_london': (
        '8c42b893441901fb805c4f0f937543d5bb9297884ac3dec7622a3e9f7c35a79b'
    ),
}
MAX_BYTES = 16 * 2**20  # the largest file has 1.4 MB
TIMEOUT = 60.0  # seconds


def fetch_temporal(name: str, root: Root = None) -> Path:
    """Download a JSON file of PyTorch Geometric Temporal (MIT licence).

    Args:
        name (str): 'chickenpox', 'england_covid' or 'pedalme_london'.
        root (str or Path, optional): Folder to write to, last of
            :func:`~torch_energy_graph.datasets.data_roots` if :obj:`None`.
            (default: :obj:`None`)

    Raises:
        OSError: If the address cannot be read.
        ValueError: If the name has no address, or the checksum differs;
            nothing is written then.
    """
    if name not in SHA256:
        raise ValueError(
            f"expected 'name' among {', '.join(SHA256)} to download (got "
            f'{name!r})'
        )
    folder = data_roots()[-1] if root is None else Path(root).expanduser()
    url = URL.format(name)
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            content = answer.read(MAX_BYTES)
    except OSError as error:
        raise OSError(
            f"cannot fetch '{url}' ({error}); put the file into '{folder}' "
            f'yourself, or try again'
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        raise ValueError(
            f"'{url}' has the SHA-256 {found}, expected {SHA256[name]}: the "
            f'publisher changed the file, or it was damaged on its way'
        )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f'{name}.json'
    temporary = path.with_name(f'{path.name}.{os.getpid()}.tmp')
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
