from typing import Optional

import torch
from torch import Tensor

from torch_geometric.typing import OptTensor

__all__ = ['RandomSigns']


class RandomSigns(torch.nn.Module):
    r"""Random signs of Laplacian eigenvectors in training mode.

    An eigenvector is known up to its sign only, so a model should not depend
    on the one that the solver returned. In training, every eigenvector of
    every graph is multiplied by +1 or -1, drawn anew in every call from
    torch's global generator; in evaluation nothing changes.

    Shapes:
        - **input:** eigenvectors :math:`(N, P)`, graph of every node
          :math:`(N)` *(optional)*
        - **output:** :math:`(N, P)`
    """

    def forward(
        self,
        pe: Tensor,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
    ) -> Tensor:
        r"""Flips whole eigenvectors.

        Args:
            pe (Tensor): Eigenvectors :math:`[N, P]`, from PyG's
                ``AddLaplacianEigenvectorPE``.
            batch (LongTensor, optional): Graph of every node, :math:`[N]`,
                in any order. (default: :obj:`None`, one graph)
            batch_size (int, optional): Number of graphs B; without it, the
                largest entry of :obj:`batch` is read from the device.
        """
        if not self.training:
            return pe
        if batch is None:
            batch_size = 1
        elif batch_size is None:
            batch_size = int(batch.max()) + 1 if batch.numel() else 0
        signs = torch.rand(batch_size, pe.size(-1), device=pe.device)
        signs = (signs < 0.5).to(pe.dtype) * 2 - 1  # [B, P]
        return pe * (signs if batch is None else signs[batch])
