from typing import Any, Dict, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Identity, Module

from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.models import MLP
from torch_geometric.nn.pool.select.topk import topk
from torch_geometric.nn.resolver import activation_resolver
from torch_geometric.typing import OptTensor
from torch_geometric.utils import scatter

from torch_energy_graph.nn.aggr import HopfieldAggregation
from torch_energy_graph.ops import scatter_softmax
from torch_energy_graph.ops.ragged import batch_of

__all__ = ['PRESETS', 'HopfieldClassifier']

#: Arguments by name, for :meth:`HopfieldClassifier.preset`.
PRESETS: Dict[str, Dict[str, Any]] = {
    # the adapted pooling in the bit-pattern demo of hflayers 1.0.2, 8 heads
    # of 8 channels, 3 updates and the association that reads; after an
    # embedding, which that demo lacks
    'bit_pattern': {
        'heads': 8,
        'association_channels': 64,
        'steps': 4,
        'beta': 0.25,
        'association_dropout': 0.5,
    },
    # as DeepRC: the best tenth, of a random half while training
    'repertoire': {
        'hidden_channels': 32,
        'num_layers': 2,
        'act': 'selu',
        'heads': 4,
        'top_k': 0.1,
        'instance_dropout': 0.5,
    },
}


class HopfieldClassifier(Module):
    r"""Classifies bags of instances (multiple-instance learning, MIL): an
    embedding of every instance, Hopfield pooling of every bag, and a linear
    head.

    .. math::
        z_j = \mathrm{MLP}(\mathrm{embedding}(x_j)), \qquad
        y_b = W\, \mathrm{HopfieldAggregation}(\{z_j : j \in b\}) + c

    Learned states look for instances that decide the class; it matters
    little how many others there are. For bags of hundred thousands, as in
    `"Modern Hopfield Networks and Attention for Immune Repertoire
    Classification" <https://arxiv.org/abs/2007.13505>`_ (DeepRC),
    :obj:`top_k` keeps the instances with the largest weight: a pass without
    gradients embeds and scores :obj:`chunk_size` instances at a time, and
    only those kept are embedded again, with gradients.

    Args:
        in_channels (int): Size of the instances, or of what
            :obj:`embedding` returns.
        hidden_channels (int, optional): Width of the MLP, and size of what
            a state reads. (default: :obj:`64`)
        out_channels (int, optional): Number of classes.
            (default: :obj:`2`)
        num_layers (int, optional): Layers of the MLP, each with an
            activation; 0 for none. (default: :obj:`1`)
        act (str, optional): The activation. (default: :obj:`"relu"`)
        embedding (Module, optional): Comes before the MLP, for instances of
            another form, such as
            :class:`~torch_energy_graph.nn.encoding.SequenceEmbedding`: maps
            :math:`[M, *]` to :math:`[M, C_\mathrm{in}]`, every instance for
            itself. (default: :obj:`None`)
        heads (int, optional): Number of heads of the pooling.
            (default: :obj:`8`)
        num_states (int, optional): Number of learned states.
            (default: :obj:`1`)
        association_channels (int, optional): Size of the association space,
            of all heads together. (default: :obj:`hidden_channels`)
        dropout (float, optional): Dropout of embedded instances and of what
            is read. (default: :obj:`0.`)
        association_dropout (float, optional): Dropout of the weights that
            read: a state cannot rely on one instance, nor learn few bags by
            heart. (default: :obj:`0.5`)
        instance_dropout (float, optional): While training, every instance
            is left out with this probability, but at least one of a bag
            stays. (default: :obj:`0.`)
        top_k (int or float, optional): So many instances of every bag, or
            this share of them (rounded up), take part.
            (default: :obj:`None`, all)
        **kwargs (optional): Additional arguments of
            :class:`~torch_energy_graph.nn.HopfieldAggregation`, such as
            :obj:`steps`, :obj:`beta` and :obj:`separation`.

    Shapes:
        - **input:** instances :math:`(N, *)`, their bags :math:`(N)`
        - **output:** logits :math:`(B, C_\mathrm{out})`
    """

    energy_contract = None

    #: Instances per chunk of the pass without gradients.
    chunk_size = 2**16

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        out_channels: int = 2,
        num_layers: int = 1,
        act: str = 'relu',
        embedding: Optional[Module] = None,
        heads: int = 8,
        num_states: int = 1,
        association_channels: Optional[int] = None,
        dropout: float = 0.0,
        association_dropout: float = 0.5,
        instance_dropout: float = 0.0,
        top_k: Union[int, float, None] = None,
        **kwargs,
    ):
        super().__init__()
        if not 0 <= dropout <= 1 or not 0 <= instance_dropout < 1:
            raise ValueError(
                f"'HopfieldClassifier' expects dropout in [0, 1] and "
                f'instance_dropout in [0, 1) (got {dropout} and '
                f'{instance_dropout})'
            )
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.out_channels = out_channels
        self.dropout = dropout
        self.instance_dropout = instance_dropout
        self.top_k = top_k
        self.embedding = Identity() if embedding is None else embedding
        self.mlp: Module = Identity()
        if num_layers > 0:
            widths = [in_channels, *[hidden_channels] * num_layers]
            self.mlp = MLP(
                widths,
                act=activation_resolver(act),
                norm=None,
                plain_last=False,
            )
        self.pool = HopfieldAggregation(
            hidden_channels if num_layers > 0 else in_channels,
            hidden_channels,
            num_states,
            heads,
            association_channels or hidden_channels,
            dropout=association_dropout,
            top_k=top_k,  # which checks it
            **kwargs,
        )
        self.pool.top_k = None  # it gets those that take part
        self.head = Linear(num_states * hidden_channels, out_channels)

    @classmethod
    def preset(
        cls, name: str, in_channels: int, **kwargs
    ) -> 'HopfieldClassifier':
        r"""A classifier with tuned settings.

        Args:
            name (str): :obj:`"bit_pattern"` or :obj:`"repertoire"`.
            in_channels (int): Size of the instances.
            **kwargs (optional): Arguments that replace those of the preset,
                or are added to them.
        """
        if name not in PRESETS:
            raise ValueError(
                f"'HopfieldClassifier' has the presets {sorted(PRESETS)} "
                f'(got {name!r})'
            )
        return cls(in_channels, **{**PRESETS[name], **kwargs})

    def reset_parameters(self):
        r"""Draws all weights anew, also those of the embedding."""
        for module in (self.embedding, self.mlp, self.pool, self.head):
            if hasattr(module, 'reset_parameters'):
                module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
        return_attention_weights: Optional[bool] = None,
    ) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        r"""Returns the logits of every bag.

        Args:
            x (Tensor): Instances :math:`[N, *]`.
            batch (LongTensor, optional): Bag of every instance, :math:`[N]`,
                in any order. (default: :obj:`None`, one bag)
            batch_size (int, optional): Number of bags; without it, the
                largest entry of :obj:`batch` is read from the device.
            return_attention_weights (bool, optional): If set to :obj:`True`,
                also returns the weights of the last association,
                :math:`[N, S, H]`, 0 for instances that did not take part.
        """
        size = x.size(0)
        x, batch, batch_size, kept = self._taking_part(x, batch, batch_size)
        z = F.dropout(self.embed(x), self.dropout, self.training)
        pooled, weights = self.pool(
            z, batch, dim_size=batch_size, return_attention_weights=True
        )
        out = self.head(F.dropout(pooled, self.dropout, self.training))
        if not return_attention_weights:
            return out
        if kept is not None:
            full = weights.new_zeros(size, *weights.shape[1:])
            weights = full.index_copy(0, kept, weights)
        return out, weights

    def embed(self, x: Tensor) -> Tensor:
        r"""Embedded instances :math:`[N, C]`, without dropout."""
        return self.mlp(self.embedding(x))

    def energy(
        self,
        x: Tensor,
        batch: OptTensor = None,
        batch_size: Optional[int] = None,
    ) -> Tensor:
        r"""Energy of the states of every bag after all updates, :math:`[B]`;
        same arguments as :meth:`forward`.

        Updates descend on it; embedding and head do not.
        """
        x, batch, batch_size, _ = self._taking_part(x, batch, batch_size)
        return self.pool.energy(self.embed(x), batch, dim_size=batch_size)

    def _taking_part(
        self, x: Tensor, batch: OptTensor, batch_size: Optional[int]
    ) -> Tuple[Tensor, Tensor, int, OptTensor]:
        """Instances, their bags, number of bags; positions, if not all."""
        batch, batch_size = batch_of(x.size(0), batch, None, batch_size)
        if batch is None:
            batch = torch.zeros(x.size(0), dtype=torch.long, device=x.device)
        kept = None
        if self.training and self.instance_dropout > 0:
            kept = self._sample(batch, batch_size)
            x, batch = x[kept], batch[kept]
        if self.top_k is not None:
            best = self._strongest(x, batch, batch_size)
            x, batch = x[best], batch[best]
            kept = best if kept is None else kept[best]
        return x, batch, batch_size, kept

    def _sample(self, batch: Tensor, batch_size: int) -> Tensor:
        """Positions of a random part of every bag."""
        draw = torch.rand(batch.size(0), device=batch.device)
        most = scatter(draw, batch, dim_size=batch_size, reduce='max')
        kept = (draw >= self.instance_dropout) | (draw == most[batch])
        return kept.nonzero().squeeze(1)

    @torch.no_grad()
    def _strongest(self, x: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        """Positions of the instances with the largest first weights."""
        scores = torch.cat(
            [
                self.pool.first_scores(self.embed(part)).flatten(1)
                for part in x.split(self.chunk_size)
            ]
        )  # [N, S * H]
        weights = scatter_softmax(scores, batch, num_nodes=batch_size)
        return topk(weights.amax(1), self.top_k, batch).sort().values

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.in_channels}, '
            f'{self.hidden_channels}, {self.out_channels}, '
            f'heads={self.pool.heads}, steps={self.pool.steps})'
        )
