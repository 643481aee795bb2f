"""One seed for Python, NumPy and PyTorch."""

from torch_geometric import seed_everything

__all__ = ['seed_everything']
