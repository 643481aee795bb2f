"""What DIFFormer's layer is compared with: its released form, and PyG's."""

from dataclasses import dataclass

import torch
from _measure import Missing, Side
from _peers import need
from torch import Tensor
from torch.nn.functional import linear

from torch_geometric.nn.attention import (
    PerformerAttention,
    SGFormerAttention,
)

from torch_energy_graph.nn import DIFFormerConv
from torch_energy_graph.ops import GraphCache


@dataclass
class Problem:
    """One layer's input, and the weights of a loss on its output."""

    x: Tensor  # [N, C]
    edge_index: Tensor | None  # [2, E]
    heads: int
    weight: Tensor  # [N, C]

    @classmethod
    def draw(cls, num_nodes, channels, heads, degree):
        """Normalised features; a graph of random pairs, both ways, and loops.

        Args:
            num_nodes (int): N.
            channels (int): C.
            heads (int): H.
            degree (int): Edges per node, an odd number; 0 for no graph.
        """
        torch.manual_seed(0)
        x, weight = torch.randn(2, num_nodes, channels)
        x = torch.nn.functional.layer_norm(x, (channels,)).requires_grad_()
        edges = None
        if degree:
            pairs = torch.randint(num_nodes, (2, num_nodes * (degree // 2)))
            loops = torch.arange(num_nodes).expand(2, -1)
            edges = torch.cat([pairs, pairs.flip(0), loops], dim=1)
            edges = edges[:, torch.randperm(edges.size(1))]
        return cls(x, edges, heads, weight)

    def layer(self, **kwargs):
        """Our layer, with the same weights whenever it is called."""
        torch.manual_seed(1)
        width = self.x.size(1)
        use_graph = self.edge_index is not None
        return DIFFormerConv(
            width,
            width,
            self.heads,
            use_graph=use_graph,
            add_self_loops=False,  # they are in the graph, as released
            **kwargs,
        )

    def side(self, forward, weights, same_function=True):
        return Side(
            lambda: (forward(self.x),),
            (self.x, *weights),
            (self.weight,),
            same_function=same_function,
        )


def released_attention(q, k, v):
    """DIFFormer-s as released: norms of whole tensors, values per head."""
    q = q / torch.norm(q, p=2)
    k = k / torch.norm(k, p=2)
    num_nodes = q.size(0)
    pairs = torch.einsum('lhm,lhd->hmd', k, v)
    ones = torch.ones(num_nodes, dtype=v.dtype)
    above = torch.einsum('nhm,hmd->nhd', q, pairs)
    above = above + torch.einsum('l,lhd->hd', ones, v)
    mass = torch.einsum('lhm,l->hm', k, ones)
    below = torch.einsum('nhm,hm->nh', q, mass).unsqueeze(-1)
    return above / (below + num_nodes)


def released_propagation(v, edge_index):
    """A sparse matrix in every call, and a product for every head."""
    from torch_sparse import SparseTensor, matmul

    src, dst = edge_index
    num_nodes = v.size(0)
    degree = torch.bincount(dst, minlength=num_nodes).to(v.dtype)
    value = (1 / degree[dst]).sqrt() * (1 / degree[src]).sqrt()
    value = torch.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0)
    sizes = (num_nodes, num_nodes)
    matrix = SparseTensor(row=dst, col=src, value=value, sparse_sizes=sizes)
    heads = [matmul(matrix, v[:, h]) for h in range(v.size(1))]
    return torch.stack(heads, dim=1)


def released_form(x, weights, heads, edge_index=None):
    """One layer as released, from the weights and biases of q, k and v."""
    size = x.size(0), heads, -1
    q, k, v = (
        linear(x, *weights[i : i + 2]).view(size) for i in range(0, 6, 2)
    )
    out = released_attention(q, k, v)
    if edge_index is not None:
        out = out + released_propagation(v, edge_index)
    return out.mean(dim=1)


def released_side(problem):
    if problem.edge_index is not None:
        need('torch_sparse')
    weights = list(problem.layer().parameters())
    return problem.side(
        lambda x: released_form(x, weights, problem.heads, problem.edge_index),
        weights,
    )


def our_side(normalize, form):
    """A builder: our layer, on a graph in one of its forms."""

    def build(problem):
        if problem.edge_index is None and form != 'cache':
            raise Missing('a matter of the graph alone')
        layer = problem.layer(normalize=normalize)
        edges = problem.edge_index
        if edges is not None and form == 'cache':
            edges = GraphCache.from_edge_index(edges, problem.x.size(0))
        return problem.side(
            lambda x: layer(x, edges),
            list(layer.parameters()),
            same_function=normalize == 'global',
        )

    return build


def pyg_side(kind):
    """A builder: an attention layer of PyG, which knows no graph."""

    def build(problem):
        if problem.edge_index is not None:
            raise Missing('it has no graph term')
        width = problem.x.size(1)
        torch.manual_seed(1)
        layer = kind(width, problem.heads, width, qkv_bias=True)
        return problem.side(
            lambda x: layer(x.unsqueeze(0)).squeeze(0),
            list(layer.parameters()),
            same_function=False,
        )

    return build


def all_methods():
    """Builders of all sides by name, the released form first."""
    return {
        'released form': released_side,
        'teg global': our_side('global', 'cache'),
        'teg global, COO': our_side('global', 'COO'),
        'teg node': our_side('node', 'cache'),
        'SGFormerAttention': pyg_side(SGFormerAttention),
        'PerformerAttention': pyg_side(PerformerAttention),
    }
