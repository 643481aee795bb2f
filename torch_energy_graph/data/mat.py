"""Fraud graphs in MATLAB files, as CARE-GNN and its successors share them.

Two forms are in use. The full form holds ``features`` :math:`[N, F]`,
``label`` :math:`[1, N]` and one adjacency ``net_...`` :math:`[N, N]` for each
relation; its ``homo``, one matrix for the union of the relations, is not read.
The single-relation form holds ``Attributes``, ``Label`` (:math:`[1, N]` or
:math:`[N, 1]`) and ``Network``.
"""

import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from torch_energy_graph.data.mat_blocks import read_matrices

__all__ = ['FraudMat', 'read_fraud_mat']

_RELATION = 'net_'
_FULL = ('features', 'label')
_SINGLE = ('Attributes', 'Label', 'Network')


@dataclass(frozen=True)
class FraudMat:
    """A fraud graph as it stands in the file.

    Attributes:
        x: Features :math:`[N, F]`, float32.
        y: Labels :math:`[N]`, int64, as stored: unlabelled nodes are not
            marked in these files.
        relations: Edges :math:`[2, E]`, int64, by relation: 'rur' of
            ``net_rur``; 'network' in the single-relation form.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    relations: dict[str, NDArray[np.int64]]


def read_fraud_mat(path: str | os.PathLike[str]) -> FraudMat:
    """Features, labels and relations of a file in one of the two forms.

    Args:
        path (str or Path): A ``.mat`` file of MATLAB 5 to 7.2.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged or has another form.
    """
    content = Path(path).read_bytes()
    try:
        return _read(content)
    except (TypeError, ValueError, zlib.error) as error:
        raise ValueError(
            f"cannot read '{path}' as a fraud graph: {error}; fetch the file "
            f'again'
        ) from error


def _read(content: bytes) -> FraudMat:
    matrices, relations = _matrices(content)
    y = _labels(matrices['label'])
    num_nodes = len(y)
    return FraudMat(
        x=_features(matrices['features'], num_nodes),
        y=y,
        relations={
            name: _edges(matrices[key], num_nodes, key)
            for key, name in relations.items()
        },
    )


def _matrices(content: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    """Matrices under the names of the full form, and relations by key."""
    found = read_matrices(
        content,
        lambda name: name in (*_FULL, *_SINGLE) or name.startswith(_RELATION),
    )
    relations = {
        key: key.removeprefix(_RELATION)
        for key in sorted(found)
        if key.startswith(_RELATION)
    }
    if relations and {*_FULL} <= {*found}:
        return found, relations
    if {*_SINGLE} <= {*found}:
        names = zip((*_FULL, 'Network'), _SINGLE, strict=True)
        return {new: found[old] for new, old in names}, {'Network': 'network'}
    raise ValueError(
        f'expected {", ".join(_FULL)} and {_RELATION}..., or '
        f'{", ".join(_SINGLE)} (got {", ".join(sorted(found)) or "none"})'
    )


def _labels(label: Any) -> NDArray[np.int64]:
    if issparse(label) or label.ndim != 2 or 1 not in label.shape:
        raise ValueError(
            f'expected labels of shape [1, N] or [N, 1] (got '
            f'{list(label.shape)})'
        )
    y = label.reshape(-1)
    if not np.isin(y, (0, 1)).all():
        raise ValueError(f'expected labels 0 and 1 (got {np.unique(y)[:5]})')
    return y.astype(np.int64)


def _features(x: Any, num_nodes: int) -> NDArray[np.float32]:
    if x.ndim != 2 or x.shape[0] != num_nodes or x.dtype.kind not in 'iuf':
        raise ValueError(
            f'expected features of {num_nodes} nodes (got {list(x.shape)} of '
            f'{x.dtype})'
        )
    return (
        x.astype(np.float32).toarray() if issparse(x) else x.astype(np.float32)
    )


def _edges(matrix: Any, num_nodes: int, key: str) -> NDArray[np.int64]:
    """Row (source) and column (target) of each entry, sorted by row."""
    if not issparse(matrix) or matrix.shape != (num_nodes, num_nodes):
        raise ValueError(
            f"expected a sparse matrix of {num_nodes} nodes in '{key}' (got "
            f"{list(matrix.shape)} of '{type(matrix).__name__}')"
        )
    if not np.isin(matrix.data, (0, 1)).all():
        raise ValueError(f"expected entries 0 and 1 in '{key}'")
    edges = np.stack(matrix.coords)[:, matrix.data != 0]
    return edges[:, np.lexsort(edges[::-1])]
