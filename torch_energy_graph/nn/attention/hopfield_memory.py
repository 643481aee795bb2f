from typing import Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, Parameter

from torch_geometric.typing import OptTensor

from torch_energy_graph.energies import reduce_energy
from torch_energy_graph.nn.attention.association import (
    DenseAssociation,
    check_retrieval,
    retrieve,
)
from torch_energy_graph.nn.attention.hopfield_projection import (
    Beta,
    HopfieldProjection,
)

__all__ = ['HopfieldMemory']


class HopfieldMemory(Module):
    r"""The lookup of the `"Hopfield Networks is All You Need"
    <https://arxiv.org/abs/2008.02217>`_ paper: every node associates with
    the patterns of one memory, learned or given.

    .. math::
        p = \mathrm{softmax}(\beta_h K \xi), \qquad
        \xi \leftarrow K^\top p \ \text{(steps - 1 times)}, \qquad
        z = W_O\, \mathrm{concat}_h\, V^\top p

    with :math:`\xi = W_Q\, \mathrm{norm}(x)` of a node, keys
    :math:`K = \mathrm{norm}(Y) W_K^\top` of the memories Y, and values
    :math:`V = \mathrm{norm}(T) W_V^\top` of their targets T, which are the
    memories themselves unless there are others. The updates descend on
    :func:`~torch_energy_graph.energies.retrieval_energy` (:meth:`energy`);
    the value projection after them does not.

    Args:
        in_channels (int): Size of the nodes.
        out_channels (int, optional): Size of the output.
            (default: :obj:`in_channels`)
        num_memories (int, optional): Number of memories K.
            (default: four times :obj:`in_channels`)
        heads (int, optional): Number of heads H. (default: :obj:`1`)
        hidden_channels (int, optional): Size of the association space, of
            all heads together. (default: :obj:`in_channels`, rounded down to
            a multiple of the heads)
        value_channels (int, optional): Size of the values, of all heads
            together. (default: :obj:`hidden_channels`)
        target_channels (int, optional): Size of targets of their own.
            (default: :obj:`None`, the memories are the targets)
        beta (float, Sequence, Tensor or str, optional): Inverse temperature:
            a number, one per head, or :obj:`"learn"` (one per head).
            (default: :math:`1 / \sqrt{d}` of head size d)
        steps (int, optional): Number of associations; the last reads the
            values. (default: :obj:`1`)
        tol (float, optional): A node whose update moved it by at most this
            distance is final; :obj:`steps` is the limit then.
            (default: :obj:`None`)
        separation (str, optional): :obj:`"softmax"`, :obj:`"sparsemax"`,
            :obj:`"entmax15"` or :obj:`"softmax1"`.
            (default: :obj:`"softmax"`)
        norm (bool, optional): Whether nodes, memories and targets are
            normalised by a :class:`~torch.nn.LayerNorm` first.
            (default: :obj:`True`)
        project (bool, optional): If set to :obj:`False`, there are no maps:
            nodes and memories live in one space, that of all heads, and the
            output is the mean of targets of every head.
            (default: :obj:`True`)
        memories (Tensor, optional): Given memories, :math:`[K, C]`, which
            are not trained. (default: :obj:`None`, learned)
        targets (Tensor, optional): Given targets, :math:`[K, T]`, which are
            not trained. (default: :obj:`None`)
        trainable (bool, optional): If set to :obj:`False`, memories stay as
            they were drawn. (default: :obj:`True`)
        train_targets (bool, optional): Same for targets of their own.
            (default: :obj:`True`)
        dropout (float, optional): Dropout of the weights that read the
            values. (default: :obj:`0.`)
        bias (bool, optional): If set to :obj:`False`, maps have no bias.
            (default: :obj:`True`)

    Shapes:
        - **input:** nodes :math:`(*, C_\mathrm{in})`
        - **output:** :math:`(*, C_\mathrm{out})`; with
          :obj:`return_attention_weights`, also weights :math:`(*, H, K)`
    """

    energy_contract = 'retrieval'

    memories: Tensor
    targets: OptTensor

    def __init__(
        self,
        in_channels: int,
        out_channels: Optional[int] = None,
        num_memories: Optional[int] = None,
        heads: int = 1,
        hidden_channels: Optional[int] = None,
        value_channels: Optional[int] = None,
        target_channels: Optional[int] = None,
        beta: Beta = None,
        steps: int = 1,
        tol: Optional[float] = None,
        separation: str = 'softmax',
        norm: bool = True,
        project: bool = True,
        memories: OptTensor = None,
        targets: OptTensor = None,
        trainable: bool = True,
        train_targets: bool = True,
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__()
        check_retrieval('HopfieldMemory', steps, tol, separation)
        if memories is not None:
            num_memories = memories.size(0)
        elif num_memories is None:
            num_memories = 4 * in_channels
        if targets is not None:
            _check_rows('targets', targets, num_memories)
            target_channels = targets.size(1)
        if memories is not None:
            _check_rows('memories', memories, num_memories, in_channels)
        if num_memories < 1:
            raise ValueError(
                f"'HopfieldMemory' expects num_memories >= 1 "
                f'(got {num_memories})'
            )
        self.in_channels = in_channels
        self.num_memories = num_memories
        self.heads = heads
        self.steps = steps
        self.tol = tol
        self.separation = separation
        self.dropout = dropout
        value = in_channels if target_channels is None else target_channels
        self.maps = HopfieldProjection(
            (in_channels, in_channels, value),
            in_channels if out_channels is None else out_channels,
            heads,
            hidden_channels,
            value_channels,
            beta,
            norms=(norm, norm, norm),
            maps=(project, project, project),
            map_out=project,
            bias=bias,
        )
        self.out_channels = self.maps.out_channels
        self._store('memories', memories, in_channels, trainable)
        self._store('targets', targets, target_channels, train_targets)
        self.reset_parameters()

    @classmethod
    def from_data(
        cls, x: Tensor, y: Tensor, project: bool = False, **kwargs
    ) -> 'HopfieldMemory':
        r"""A memory of labelled data, such as training nodes.

        Without maps, which is the default here, nothing is trained: the
        output is a mean of labels, weighted by similarity.

        Args:
            x (Tensor): Memories :math:`[K, C]`.
            y (Tensor): Classes, :math:`[K]` of integers, which become
                one-hot targets, or targets :math:`[K, T]` or :math:`[K]`.
            project (bool, optional): Whether there are learned maps.
                (default: :obj:`False`)
            **kwargs (optional): Further arguments of the constructor;
                :obj:`norm=False` without maps.
        """
        if not y.is_floating_point():
            y = F.one_hot(y.long())
        targets = y.to(x.dtype).view(x.size(0), -1)
        kwargs.setdefault('norm', project)
        return cls(
            x.size(1),
            memories=x,
            targets=targets,
            project=project,
            **kwargs,
        )

    def reset_parameters(self):
        r"""Draws all weights, and memories that are not given, anew."""
        self.maps.reset_parameters()
        for weight in (self.memories, self.targets):
            if isinstance(weight, Parameter):
                torch.nn.init.normal_(weight)

    def forward(
        self, x: Tensor, return_attention_weights: Optional[bool] = None
    ) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        r"""Looks every node up.

        Args:
            x (Tensor): Nodes :math:`[*, C_\mathrm{in}]`.
            return_attention_weights (bool, optional): If set to :obj:`True`,
                also returns the weights of the last association,
                :math:`[*, H, K]`.
        """
        found = self.association(x)
        state = retrieve(found, self.steps - 1, self.tol)
        weights = found.weights(state)  # [H, N, K]
        read = F.dropout(weights, self.dropout, training=self.training)
        targets = self.memories if self.targets is None else self.targets
        values = self.maps.values(targets, found.stored.transpose(0, 1))
        values = found.read(read, values.transpose(0, 1))  # [H, N, P]
        out = self.maps.out(values.transpose(0, 1))
        out = out.view(*x.shape[:-1], self.out_channels)
        if not return_attention_weights:
            return out
        return out, weights.transpose(0, 1).unflatten(0, x.shape[:-1])

    def energy(
        self,
        x: Tensor,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
        reduction: str = 'graph',
    ) -> Tensor:
        r"""The energy of nodes, :obj:`steps` updates after the first.

        Args:
            x (Tensor): Nodes :math:`[N, C_\mathrm{in}]`.
            batch (LongTensor, optional): Graph of every node, :math:`[N]`.
            batch_size (int, optional): Number of graphs.
            reduction (str, optional): :obj:`"graph"` or :obj:`"node"`.

        Returns:
            Tensor: A scalar, :math:`[B]` with :obj:`batch`, or :math:`[N]`
            for :obj:`"node"`, the sum over the heads.
        """
        found = self.association(x)
        energy = found.energy(retrieve(found, self.steps, self.tol)).sum(0)
        return reduce_energy(energy, batch, batch_size, reduction)

    def association(self, x: Tensor) -> DenseAssociation:
        r"""Nodes as states :math:`[H, N, d]` and memories, for retrieval
        step by step.
        """
        if x.dim() == 0 or x.size(-1) != self.in_channels:
            raise ValueError(
                f"'{self.__class__.__name__}' expects nodes of shape "
                f'[*, {self.in_channels}] (got {list(x.shape)})'
            )
        x = x.reshape(-1, self.in_channels)
        return DenseAssociation(
            self.maps.states(x).transpose(0, 1),
            self.maps.stored(self.memories).transpose(0, 1),
            self.maps.beta(),
            self.separation,
        )

    def _store(
        self, name: str, given: OptTensor, size: Optional[int], train: bool
    ) -> None:
        if given is not None:
            self.register_buffer(name, given.detach().clone())
        elif size is None:
            self.register_parameter(name, None)
        else:
            weight = torch.empty(self.num_memories, size)
            setattr(self, name, Parameter(weight, requires_grad=train))

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.in_channels}, '
            f'{self.out_channels}, num_memories={self.num_memories}, '
            f'heads={self.heads}, steps={self.steps})'
        )


def _check_rows(
    name: str, rows: Tensor, count: int, size: Optional[int] = None
) -> None:
    fits = rows.dim() == 2 and rows.size(0) == count
    if not fits or size not in (None, rows.size(1)):
        width = 'T' if size is None else size
        raise ValueError(
            f"'HopfieldMemory' expects {name} of shape [{count}, {width}] "
            f'(got {list(rows.shape)})'
        )
