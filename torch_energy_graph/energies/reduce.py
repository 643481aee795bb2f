"""From the energy of every node to the energy of every graph."""

from __future__ import annotations

from torch import Tensor

from torch_geometric.utils import scatter

__all__ = ['reduce_energy']


def reduce_energy(
    energy: Tensor,
    batch: Tensor | None = None,
    batch_size: int | None = None,
    reduction: str = 'graph',
) -> Tensor:
    r"""Sums node energies per graph.

    Args:
        energy (Tensor): Energy of every node, :math:`[N]`.
        batch (LongTensor, optional): Graph of every node, :math:`[N]`, in
            any order. (default: :obj:`None`, one graph)
        batch_size (int, optional): Number of graphs; without it, the largest
            entry of :obj:`batch` is read from the device.
        reduction (str, optional): :obj:`"graph"` or :obj:`"node"`.
            (default: :obj:`"graph"`)

    Returns:
        Tensor: :math:`[N]` for :obj:`"node"`; for :obj:`"graph"` a scalar,
        or :math:`[B]` with :obj:`batch`. Sums run in float64, so that large
        graphs do not drift.

    Raises:
        ValueError: If the reduction is unknown or the batch does not fit.
    """
    if reduction not in ('graph', 'node'):
        raise ValueError(
            f"'reduction' must be 'graph' or 'node' (got {reduction!r})"
        )
    if reduction == 'node':
        return energy
    if batch is None:
        return energy.double().sum().to(energy.dtype)
    if batch.shape != energy.shape:
        raise ValueError(
            f"'batch' must name the graph of every node, "
            f'{list(energy.shape)} (got {list(batch.shape)})'
        )
    if batch_size is None:
        batch_size = int(batch.max()) + 1 if batch.numel() else 0
    total = scatter(
        energy.double(), batch.long(), dim_size=batch_size, reduce='sum'
    )
    return total.to(energy.dtype)
