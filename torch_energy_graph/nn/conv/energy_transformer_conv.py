from typing import Optional, Tuple, Union

from torch import Tensor

from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import Adj, OptTensor

from torch_energy_graph.dynamics import (
    EnergyTrace,
    descend,
    safe_step_size,
)
from torch_energy_graph.energies import reduce_energy
from torch_energy_graph.nn.conv.energy_attention_conv import (
    EnergyAttentionConv,
)
from torch_energy_graph.nn.conv.hopfield_network import HopfieldNetwork
from torch_energy_graph.nn.norm import EnergyLayerNorm
from torch_energy_graph.nn.positive import PositiveScalar

__all__ = ['EnergyTransformerConv']


class EnergyTransformerConv(MessagePassing):
    r"""The recurrent block of the `"Energy Transformer"
    <https://arxiv.org/abs/2302.07253>`_ paper (eq. 6) on a graph: T steps
    down one energy, with the same weights in every step.

    .. math::
        g^t = \mathrm{norm}(x^t), \qquad
        x^{t+1} = x^t - \alpha \frac{\partial E}{\partial g}(g^t), \qquad
        E = E_\mathrm{attention} + E_\mathrm{memories}

    A drop-in replacement for
    :class:`~torch_geometric.nn.conv.GCNConv`\ :obj:`(in, out)` whose reach is
    T hops. With :obj:`step_size="auto"` every node takes the largest step
    that is proven not to raise E
    (:func:`~torch_energy_graph.dynamics.safe_step_size`); a fixed step is
    usually larger and carries no promise. Noise voids the certificate.

    Args:
        in_channels (int): Size of the input features, or :obj:`-1` to derive
            it from the first input. A linear input map exists when it is
            :obj:`-1` or differs from :obj:`out_channels`.
        out_channels (int, optional): Size C of the state.
            (default: :obj:`in_channels`)
        heads (int, optional): Number of attention heads.
            (default: :obj:`1`)
        head_channels (int, optional): Channels of a head.
            (default: :obj:`out_channels // heads`)
        num_memories (int, optional): Number of memories.
            (default: :obj:`4 * out_channels`)
        num_steps (int, optional): Number of steps T. (default: :obj:`4`)
        step_size (float or str, optional): :math:`\alpha`, :obj:`"learn"`
            (positive, starts at 0.1) or :obj:`"auto"`. (default: :obj:`0.1`)
        noise_std (float, optional): Noise of standard deviation
            :math:`\sqrt\alpha` times this is added to every step in training
            mode, from torch's global generator. (default: :obj:`0.`)
        checkpoint (bool, optional): Recompute the steps in the backward
            pass, so that memory hardly grows with T; see
            :func:`~torch_energy_graph.dynamics.descend`.
            (default: :obj:`False`)
        activation (str, optional): Activation of the memories, see
            :class:`HopfieldNetwork`. (default: :obj:`"relu"`)
        beta (float or str, optional): Inverse temperature of the attention,
            a number or :obj:`"learn"`. (default: :math:`1 / \sqrt{Y}`)
        edge_dim (int, optional): Number of edge features.
            (default: :obj:`None`)
        num_relations (int, optional): Number of relations.
            (default: :obj:`None`)
        add_self_loops (bool, optional): If set to :obj:`True`, every node
            attends to itself. (default: :obj:`False`)
        **kwargs (optional): Additional arguments of
            :class:`torch_geometric.nn.conv.MessagePassing`.

    Shapes:
        - **input:** node features :math:`(N, C_\mathrm{in})`, edges
          :math:`(2, E)`, edge weights :math:`(E)` *(optional)*, edge
          features :math:`(E, D)` *(optional)*
        - **output:** state :math:`x^T`, :math:`(N, C)`
    """

    energy_contract = 'exact'

    def __init__(
        self,
        in_channels: int,
        out_channels: Optional[int] = None,
        heads: int = 1,
        head_channels: Optional[int] = None,
        num_memories: Optional[int] = None,
        num_steps: int = 4,
        step_size: Union[float, str] = 0.1,
        noise_std: float = 0.0,
        checkpoint: bool = False,
        activation: str = 'relu',
        beta: Union[float, str, None] = None,
        edge_dim: Optional[int] = None,
        num_relations: Optional[int] = None,
        add_self_loops: bool = False,
        **kwargs,
    ):
        super().__init__()
        if out_channels is None:
            out_channels = in_channels
        if not isinstance(in_channels, int) or out_channels < 1:
            raise ValueError(
                f"'EnergyTransformerConv' expects one number of input "
                f'channels and out_channels >= 1 (got {in_channels} and '
                f'{out_channels}); it does not support bipartite graphs'
            )
        if num_steps < 0 or noise_std < 0:
            raise ValueError(
                f"'EnergyTransformerConv' expects num_steps >= 0 and "
                f'noise_std >= 0 (got {num_steps} and {noise_std})'
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.num_steps = num_steps
        self.noise_std = noise_std
        self.checkpoint = checkpoint
        self.step_size = step_size
        if in_channels != out_channels:
            self.lin = Linear(
                in_channels, out_channels, weight_initializer='glorot'
            )
        else:
            self.register_module('lin', None)
        self.norm = EnergyLayerNorm(out_channels)
        self.attention = EnergyAttentionConv(
            out_channels,
            heads,
            head_channels,
            beta,
            edge_dim,
            num_relations,
            add_self_loops,
            **kwargs,
        )
        self.memory = HopfieldNetwork(out_channels, num_memories, activation)
        if step_size == 'auto':
            self.register_module('step', None)
        else:
            self.step = PositiveScalar('step_size', step_size, 0.1)
        self.reset_parameters()

    def reset_parameters(self):
        super().reset_parameters()
        for module in self.children():
            if hasattr(module, 'reset_parameters'):
                module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Adj,
        edge_weight: OptTensor = None,
        edge_attr: OptTensor = None,
        edge_type: OptTensor = None,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
        return_trace: bool = False,
    ) -> Union[Tensor, Tuple[Tensor, EnergyTrace]]:
        r"""Descends from the embedded input.

        Args:
            x (Tensor): Node features :math:`[N, C_\mathrm{in}]`.
            edge_index (Adj or GraphCache): Edges from keys to queries.
            edge_weight (Tensor, optional): Weights :math:`w > 0`,
                :math:`[E]`.
            edge_attr (Tensor, optional): Edge features :math:`[E, D]`.
            edge_type (LongTensor, optional): Relations :math:`[E]`.
            batch (LongTensor, optional): Graph of every node; only the trace
                depends on it.
            batch_size (int, optional): Number of graphs.
            return_trace (bool, optional): If set to :obj:`True`, also
                returns an :class:`~torch_energy_graph.dynamics.EnergyTrace`.
        """
        x = self.embed(x)
        edges = self.attention.prepare(
            x, edge_index, edge_attr, edge_type, edge_weight
        )

        def field(g: Tensor) -> Tensor:  # -dE/dg
            return self.attention.descent(g, edges) + self.memory(g)

        def energy(g: Tensor) -> Tensor:  # [N]
            return self._node_energy(g, edges)

        x, trace = descend(
            x,
            self.norm,
            field,
            self.num_steps,
            self._step_rule(edges),
            energy=energy if return_trace else None,
            batch=batch,
            batch_size=batch_size,
            noise_std=self.noise_std if self.training else 0.0,
            checkpoint=self.checkpoint,
        )
        return x if trace is None else (x, trace)

    def embed(self, x: Tensor) -> Tensor:
        r"""The state :math:`x^0` of input features, :math:`[N, C]`."""
        if not isinstance(x, Tensor):
            raise ValueError(
                f"'{self.__class__.__name__}' does not support bipartite "
                f'input: its energy needs one state per node (got '
                f'{type(x).__name__}); use a homogeneous graph with '
                f"'edge_type' and 'num_relations'"
            )
        lin = self.lin
        width = self.out_channels if lin is None else lin.in_channels
        if x.dim() != 2 or (width != -1 and x.size(-1) != width):
            raise ValueError(
                f"'{self.__class__.__name__}' expects node features of shape "
                f'[N, {width}] (got {list(x.shape)})'
            )
        return x if lin is None else lin(x)

    def energy(
        self,
        x: Tensor,
        edge_index: Adj,
        edge_weight: OptTensor = None,
        edge_attr: OptTensor = None,
        edge_type: OptTensor = None,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
        reduction: str = 'graph',
    ) -> Tensor:
        r"""The energy of a state (not of the input features).

        Args:
            x (Tensor): State :math:`[N, C]`, from :meth:`embed` or
                :meth:`forward`; it is normalised here.
            edge_index (Adj or GraphCache): Edges from keys to queries.
            edge_weight (Tensor, optional): Weights :math:`w > 0`.
            edge_attr (Tensor, optional): Edge features :math:`[E, D]`.
            edge_type (LongTensor, optional): Relations :math:`[E]`.
            batch (LongTensor, optional): Graph of every node, :math:`[N]`.
            batch_size (int, optional): Number of graphs.
            reduction (str, optional): :obj:`"graph"` or :obj:`"node"`.

        Returns:
            Tensor: A scalar, :math:`[B]` with :obj:`batch`, or :math:`[N]`
            for :obj:`"node"`.
        """
        g = self.norm(x)
        edges = self.attention.prepare(
            g, edge_index, edge_attr, edge_type, edge_weight
        )
        energy = self._node_energy(g, edges)
        return reduce_energy(energy, batch, batch_size, reduction)

    def _node_energy(self, g: Tensor, edges) -> Tensor:
        attention = self.attention.node_energy(g, edges)  # [N]
        return attention + self.memory.energy(g, reduction='node')

    def _step_rule(self, edges):
        if self.step is not None:
            return self.step()
        curvature = self.attention.curvature(edges)  # [N]

        def rule(x: Tensor, force: Tensor) -> Tensor:
            sigma, gamma = self.norm.sigma(x), self.norm.gamma
            return safe_step_size(sigma, gamma, curvature, force)

        return rule

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.in_channels}, '
            f'{self.out_channels}, heads={self.attention.heads}, '
            f'num_steps={self.num_steps}, step_size={self.step_size!r})'
        )
