from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import OptTensor

from torch_energy_graph.ops import (
    batch_of,
    gram_attention,
    linear_attention,
    linear_attention_weights,
    sigmoid_attention,
    sigmoid_attention_weights,
    unit_attention,
)

__all__ = ['DiffusionAttention']


class DiffusionAttention(torch.nn.Module):
    r"""The all-pair attention of the `"DIFFormer: Scalable (Graph)
    Transformers Induced by Energy Constrained Diffusion"
    <https://arxiv.org/abs/2301.09474>`_ paper: every node of a graph attends
    to every node of that graph, no edges needed.

    .. math::
        o_i = \frac{1}{H} \sum_h \sum_j P^h_{ij} v^h_j, \qquad
        P^h_{ij} = \frac{\omega(q^h_i, k^h_j)}
                        {\sum_{j'} \omega(q^h_i, k^h_{j'})}

    ================ ====================================== ==============
    :obj:`kernel`    :math:`\omega(q, k)`                   cost
    ================ ====================================== ==============
    :obj:`"simple"`  :math:`1 + \tilde q \cdot \tilde k`    :math:`O(N)`
    :obj:`"sigmoid"` :math:`1 / (1 + \exp(-q \cdot k))`     :math:`O(N^2)`
    ================ ====================================== ==============

    Memory is :math:`O(N)` for both. With :obj:`normalize="node"`, the paper's
    formula, :math:`\tilde q = q / \lVert q \rVert` per node and head. The
    released code divides by the norm of *all* queries of the graph, heads
    included: :obj:`normalize="global"`. Then :math:`|\tilde q \cdot \tilde
    k|` is :math:`1 / N` on average at most, whatever the weights are, so
    that this is mean pooling up to :math:`O(1 / N)`; use it to carry weights
    over, or because the mean is what you want.

    Each graph of a batch gets exactly what it gets alone. A zero query or
    key has no direction: it has weight 1 with every node.

    The paper motivates the weights by the energy
    :func:`~torch_energy_graph.energies.diffusion_energy`, whose minimisation
    they follow when queries, keys and values are the states themselves. The
    trained maps :math:`W_Q \ne W_K` and :math:`W_V` are no longer a descent
    on it: :obj:`energy_contract` is :obj:`None`.

    Args:
        in_channels (int): Size of the input features, or :obj:`-1` to derive
            it from the first input.
        out_channels (int): Size of the output, and of every head.
        heads (int, optional): Number of heads H; their mean is returned.
            (default: :obj:`1`)
        kernel (str, optional): :obj:`"simple"` or :obj:`"sigmoid"`.
            (default: :obj:`"simple"`)
        normalize (str, optional): :obj:`"node"` or :obj:`"global"`, for the
            simple kernel; the sigmoid kernel knows no norms.
            (default: :obj:`"node"`)
        use_value (bool, optional): If set to :obj:`False`, the value of a
            node is its input; needs :obj:`in_channels == out_channels`.
            (default: :obj:`True`)

    Shapes:
        - **input:** node features :math:`(N, C_\mathrm{in})`
        - **output:** :math:`(N, C_\mathrm{out})`; with
          :obj:`return_attention_weights`, also P :math:`(N, N, H)`
    """

    energy_contract = None

    #: Most weights that are returned: 512 MiB in float32.
    max_weights = 2**27

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        kernel: str = 'simple',
        normalize: str = 'node',
        use_value: bool = True,
    ):
        super().__init__()
        name = self.__class__.__name__
        if kernel not in ('simple', 'sigmoid'):
            raise ValueError(
                f"'{name}' expects kernel 'simple' or 'sigmoid' "
                f'(got {kernel!r})'
            )
        if normalize not in ('node', 'global'):
            raise ValueError(
                f"'{name}' expects normalize 'node' or 'global' "
                f'(got {normalize!r})'
            )
        if not isinstance(in_channels, int) or min(out_channels, heads) < 1:
            raise ValueError(
                f"'{name}' expects one number of input channels, and "
                f'out_channels and heads >= 1 (got {in_channels}, '
                f'{out_channels} and {heads}); it does not support bipartite '
                f'graphs'
            )
        if not use_value and in_channels not in (out_channels, -1):
            raise ValueError(
                f"'{name}' without value map returns a mean of its inputs: "
                f'in_channels and out_channels must be equal (got '
                f'{in_channels} and {out_channels}); set use_value=True'
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads
        self.kernel = kernel
        self.normalize = normalize
        self.use_value = use_value
        self.lin_query = Linear(in_channels, heads * out_channels)
        self.lin_key = Linear(in_channels, heads * out_channels)
        if use_value:
            self.lin_value = Linear(in_channels, heads * out_channels)
        else:
            self.register_module('lin_value', None)

    def reset_parameters(self):
        r"""Draws all weights anew."""
        for lin in self.children():
            lin.reset_parameters()

    def forward(
        self,
        x: Tensor,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
        return_attention_weights: Optional[bool] = None,
    ) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        r"""Runs the attention.

        Args:
            x (Tensor): Node features :math:`[N, C_\mathrm{in}]`.
            batch (LongTensor, optional): Graph of every node, :math:`[N]`,
                in any order. (default: :obj:`None`, one graph)
            batch_size (int, optional): Number of graphs; without it, the
                largest entry of :obj:`batch` is read from the device.
            return_attention_weights (bool, optional): If set to
                :obj:`True`, also returns :math:`P`, :math:`[N, N, H]`, with
                target i first, zero between different graphs.
        """
        self.initialize(x)
        batch, batch_size = batch_of(x.size(0), batch, None, batch_size)
        if self.kernel == 'simple' and batch_size == 1:
            out = self._one_graph(x)
        else:
            q, k, v = self.project(x)
            if self.kernel == 'simple':
                out = linear_attention(
                    q, k, v, batch, None, batch_size, self.normalize
                )
            else:
                out = sigmoid_attention(q, k, v, batch, None, batch_size)
            out = out.mean(1)
        if not return_attention_weights:
            return out
        return out, self.attention_weights(x, batch, batch_size)

    def project(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        r"""Queries and keys :math:`[N, H, D]`, and values of that shape or
        :math:`[N, 1, D]`.
        """
        size = (-1, self.heads, self.out_channels)
        q, k = self.lin_query(x).view(size), self.lin_key(x).view(size)
        if self.lin_value is None:
            return q, k, x.unsqueeze(1)
        return q, k, self.lin_value(x).view(size)

    def mean_value(self, x: Tensor) -> Tensor:
        r"""The mean of the values over heads, :math:`[N, D]`, from one map."""
        if self.lin_value is None:
            return x
        self.initialize(x)
        if self.heads == 1:
            return self.lin_value(x)
        weight, bias = _split(self.lin_value, self.heads)
        return torch.nn.functional.linear(x, weight.mean(0), bias.mean(0))

    def attention_weights(
        self,
        x: Tensor,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
    ) -> Tensor:
        r"""The weights :math:`P`, :math:`[N, N, H]`, target i first; rows
        sum to 1.

        Raises:
            ValueError: If there are more than :obj:`max_weights`.
        """
        num_weights = x.size(0) ** 2 * self.heads
        if num_weights > self.max_weights:
            raise ValueError(
                f"'{self.__class__.__name__}' would return {num_weights} "
                f'attention weights of {x.size(0)} nodes (at most '
                f'{self.max_weights}); ask for those of a subgraph'
            )
        q, k, _ = self.project(x)
        if self.kernel == 'simple':
            return linear_attention_weights(
                q, k, batch, None, batch_size, self.normalize
            )
        return sigmoid_attention_weights(q, k, batch, None, batch_size)

    def initialize(self, x: Tensor) -> None:
        r"""Checks the input, and creates lazy weights at the first one."""
        width = self.lin_query.in_channels
        if not isinstance(x, Tensor):
            raise ValueError(
                f"'{self.__class__.__name__}' does not support bipartite "
                f'input: all nodes attend to each other (got '
                f'{type(x).__name__}); use a homogeneous graph'
            )
        if x.dim() != 2 or x.size(1) != (x.size(1) if width < 0 else width):
            raise ValueError(
                f"'{self.__class__.__name__}' expects node features of shape "
                f'[N, {width}] (got {list(x.shape)})'
            )
        if width < 0:
            if self.lin_value is None and x.size(1) != self.out_channels:
                raise ValueError(
                    f"'{self.__class__.__name__}' without value map returns "
                    f'a mean of its inputs, of {self.out_channels} channels '
                    f'(got {list(x.shape)}); set use_value=True'
                )
            for lin in self.children():
                lin(x[:0])

    def _one_graph(self, x: Tensor) -> Tensor:
        """Same as the direct form, without queries, keys and values."""
        query = _split(self.lin_query, self.heads)
        key = _split(self.lin_key, self.heads)
        value: Tuple[OptTensor, OptTensor] = (None, None)
        if self.lin_value is not None:
            value = _split(self.lin_value, self.heads)
        if self.normalize == 'global':
            return gram_attention(x, *query, *key, *value)
        return unit_attention(x, *query, *key, *value)

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.in_channels}, '
            f'{self.out_channels}, heads={self.heads}, '
            f'kernel={self.kernel!r}, normalize={self.normalize!r})'
        )


def _split(lin: Linear, heads: int) -> Tuple[Tensor, Tensor]:
    """Weight [H, D, C] and bias [H, D] of every head."""
    weight = lin.weight.view(heads, -1, lin.weight.size(1))
    return weight, lin.bias.view(heads, -1)
