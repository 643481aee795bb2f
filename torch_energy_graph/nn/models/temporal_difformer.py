from typing import Optional

import torch
from torch import Tensor

from torch_geometric.typing import Adj, OptTensor

from torch_energy_graph.nn.models.difformer import DIFFormer

__all__ = ['TemporalDIFFormer']


class TemporalDIFFormer(torch.nn.Module):
    r"""One step ahead for the signal of every node, by the diffusion of the
    `"DIFFormer: Scalable (Graph) Transformers Induced by Energy Constrained
    Diffusion" <https://arxiv.org/abs/2301.09474>`_ paper over all nodes, and
    over the edges of a graph if there is one.

    .. math::
        \hat y_i = \mathrm{DIFFormer}(x)_i
            + \sum_{l=1}^{L} w_l\, x_{i, l}

    The features :math:`x_i` of a node are its last L values, and the model of
    the paper is the first term. The second is the autoregressive part of the
    `"Modeling Long- and Short-Term Temporal Patterns with Deep Neural
    Networks" <https://arxiv.org/abs/1703.07015>`_ paper, with weights that
    all nodes share and that start at zero: the layer norms of the first term
    lose the scale of the input, the second keeps it.

    Args:
        lags (int): Number of past values L.
        hidden_channels (int): Size of the state.
        num_layers (int, optional): Number of layers. (default: :obj:`2`)
        linear_skip (bool, optional): If set to :obj:`False`, there is no
            second term. (default: :obj:`True`)
        **kwargs (optional): Additional arguments of
            :class:`~torch_energy_graph.nn.models.DIFFormer`: heads, kernel,
            normalize, alpha, dropout, use_graph, ...

    Shapes:
        - **input:** past values :math:`(N, L)`, oldest first, edges
          :math:`(2, E)` *(optional)*, edge weights :math:`(E)` *(optional)*
        - **output:** the next value :math:`(N)`
    """

    energy_contract = None
    skip: Optional[torch.nn.Parameter]

    def __init__(
        self,
        lags: int,
        hidden_channels: int,
        num_layers: int = 2,
        linear_skip: bool = True,
        **kwargs,
    ):
        super().__init__()
        if lags < 1:
            raise ValueError(
                f"'{self.__class__.__name__}' expects lags >= 1 (got {lags})"
            )
        self.lags = lags
        self.net = DIFFormer(lags, hidden_channels, 1, num_layers, **kwargs)
        skip = torch.nn.Parameter(torch.zeros(lags)) if linear_skip else None
        self.register_parameter('skip', skip)

    def reset_parameters(self):
        r"""Draws all weights anew."""
        self.net.reset_parameters()
        if self.skip is not None:
            torch.nn.init.zeros_(self.skip)

    def forward(
        self,
        x: Tensor,
        edge_index: Optional[Adj] = None,
        edge_weight: OptTensor = None,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
    ) -> Tensor:
        r"""Returns the next value of every node, :math:`[N]`.

        Args:
            x (Tensor): Past values :math:`[N, L]`, oldest first.
            edge_index (Adj or GraphCache, optional): Edges; needed unless
                :obj:`use_graph=False`.
            edge_weight (Tensor, optional): Edge weights :math:`[E]`.
            batch (LongTensor, optional): Window of every node, :math:`[N]`:
                many windows in one call give what each gives alone.
                (default: :obj:`None`, one window)
            batch_size (int, optional): Number of windows.
        """
        if x.dim() != 2 or x.size(1) != self.lags:
            raise ValueError(
                f"'{self.__class__.__name__}' expects past values of shape "
                f'[N, {self.lags}] (got {list(x.shape)}); a signal of shape '
                f"[T, N] is cut by 'sliding_windows'"
            )
        out = self.net(x, edge_index, edge_weight, batch, batch_size)
        out = out.squeeze(-1)  # [N]
        return out if self.skip is None else out + x @ self.skip

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.lags}, '
            f'{self.net.hidden_channels}, num_layers={self.net.num_layers}, '
            f'linear_skip={self.skip is not None})'
        )
