r"""Gradients of the energy at the input, and their lengths.

Nodes of a graph are coupled, so three gradients make sense. *Joint*: the
gradient of the summed energy at the features of a node,
:math:`\partial \sum_i E_i / \partial x_j`, of which all nodes within the
reach of the model take part; it is the score of the joint density
:math:`p(X | A) \propto e^{-\sum_i E_i}`. *Latent*: at the input of a head
that reads one node, where it is exact per node. *Per graph*: graphs of a
batch do not touch, so the gradient of the sum is that of every graph.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric.utils import scatter

__all__ = ['energy_gradient', 'row_norms']


def energy_gradient(
    energy: Tensor, inputs: Tensor, create_graph: bool = False
) -> Tensor:
    r"""Gradient of the summed energies at the inputs, of their shape.

    Args:
        energy (Tensor): Energies :math:`[B]`.
        inputs (Tensor): What they were computed from.
        create_graph (bool, optional): Whether it will be differentiated
            again. (default: :obj:`False`)

    Raises:
        ValueError: If the energies do not depend on the inputs.
    """
    grad = None
    if energy.requires_grad and inputs.requires_grad:
        (grad,) = torch.autograd.grad(
            energy.sum(), inputs, create_graph=create_graph, allow_unused=True
        )
    if grad is None:
        raise ValueError(
            'the energy has no gradient at the inputs; compute the logits '
            'from inputs.requires_grad_(), with gradients enabled'
        )
    return grad


def row_norms(
    grad: Tensor, num_rows: int, batch: Tensor | None = None
) -> Tensor:
    r"""L2 norm of the gradient of every node, image or graph.

    Args:
        grad (Tensor): Gradient of inputs, :math:`[N, *]`.
        num_rows (int): Rows of the logits: :math:`N`, or the number
            :math:`B` of graphs.
        batch (LongTensor, optional): Graph of every node, :math:`[N]`; needed
            for several graphs.

    Returns:
        Tensor: :math:`[N]`, or :math:`[B]` with the norm over all nodes of a
        graph; float32 at least. Where a gradient is zero, so is its own.

    Raises:
        ValueError: If the rows are neither the inputs nor graphs.
    """
    wide = torch.promote_types(grad.dtype, torch.float32)
    norm = torch.linalg.vector_norm(
        grad.reshape(grad.size(0), -1).to(wide), dim=1
    )
    if norm.size(0) == num_rows:
        return norm
    if batch is None and num_rows == 1:
        return torch.linalg.vector_norm(norm).view(1)
    if batch is None or batch.shape != norm.shape:
        given = 'no batch' if batch is None else f'batch {list(batch.shape)}'
        raise ValueError(
            f'expected logits of every input, [{norm.size(0)}, K], or of '
            f'every graph, with its nodes in batch [{norm.size(0)}] (got '
            f'{num_rows} rows and {given})'
        )
    square = scatter(norm.square(), batch, dim_size=num_rows)
    zero = square == 0  # there, the root has no derivative
    return square.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0)
