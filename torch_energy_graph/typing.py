"""Type aliases shared with PyG, and flags of what is installed."""

from importlib.util import find_spec

from torch_geometric.typing import (
    WITH_PYG_LIB,
    WITH_TORCH_SCATTER,
    WITH_TORCH_SPARSE,
    Adj,
    OptPairTensor,
    OptTensor,
    Size,
    SparseTensor,
)

__all__ = [
    'Adj',
    'OptPairTensor',
    'OptTensor',
    'Size',
    'SparseTensor',
    'WITH_MATPLOTLIB',
    'WITH_PANDAS',
    'WITH_PYG_LIB',
    'WITH_TORCH_SCATTER',
    'WITH_TORCH_SPARSE',
]

WITH_MATPLOTLIB = find_spec('matplotlib') is not None
WITH_PANDAS = find_spec('pandas') is not None
