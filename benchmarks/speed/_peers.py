"""What energy attention is compared with: the same formula, and layers."""

from dataclasses import dataclass
from functools import partial

import torch
from _measure import Missing, Side
from torch import Tensor

from torch_geometric import EdgeIndex
from torch_geometric.nn import GATConv, TransformerConv
from torch_geometric.utils import scatter, softmax

from torch_energy_graph.ops import (
    GraphCache,
    backends,
    energy_attention,
    use_backend,
)

OURS = 'teg '  # then the name of the backend


@dataclass
class Problem:
    """Inputs, and weights of a loss on lse, u and v.

    Edges are sorted by target, which suits the peers, too.
    """

    q: Tensor  # [N, H, Y]
    k: Tensor  # [N, H, Y]
    edge_index: Tensor  # [2, E]
    graph: GraphCache
    weights: tuple[Tensor, Tensor, Tensor]
    beta: float

    @classmethod
    def draw(cls, edge_index, num_nodes, heads, channels, **kwargs):
        """Random inputs; `kwargs` are a dtype and a device."""
        torch.manual_seed(0)
        shape = (num_nodes, heads, channels)
        q, k, weight_u, weight_v = torch.randn(4, *shape)
        tensors = (q, k, torch.randn(shape[:2]), weight_u, weight_v)
        q, k, *weights = (t.clone().to(**kwargs) for t in tensors)
        q.requires_grad_()
        k.requires_grad_()
        edge_index = edge_index.to(q.device)
        graph = GraphCache.from_edge_index(edge_index, num_nodes)
        beta = channels**-0.5
        return cls(q, k, edge_index, graph, tuple(weights), beta)

    @property
    def num_nodes(self):
        return self.q.size(0)

    def side(self, formula, **kwargs):
        """A side that evaluates (q, k) -> (lse, u, v).

        Rows without edges count as 0, for -inf has no place in a loss.
        """
        empty = self.graph.in_degree().eq(0).unsqueeze(-1)  # [N, 1]

        def forward():
            lse, u, v = formula(self.q, self.k)
            return lse.masked_fill(empty, 0.0), u, v

        return Side(forward, (self.q, self.k), self.weights, **kwargs)


def pyg_formula(q, k, edge_index, beta):
    """Edge-wise with PyG's `softmax` and `scatter`."""
    src, dst = edge_index
    num_nodes = q.size(0)
    q_edge, k_edge = q.index_select(0, dst), k.index_select(0, src)
    logits = beta * (q_edge * k_edge).sum(-1)  # [E, H]
    p = softmax(logits, dst, num_nodes=num_nodes).unsqueeze(-1)
    top = scatter(logits.detach(), dst, dim_size=num_nodes, reduce='max')
    total = (logits - top.index_select(0, dst)).exp()
    total = scatter(total, dst, dim_size=num_nodes, reduce='sum')
    lse = top + total.log()  # [N, H]
    u = scatter(p * k_edge, dst, dim_size=num_nodes, reduce='sum')
    v = scatter(p * q_edge, src, dim_size=num_nodes, reduce='sum')
    return lse, u, v


def plain_formula(q, k, edge_index, beta):
    """Edge-wise with operations of torch alone, for the compiler."""
    src, dst = edge_index
    q_edge, k_edge = q[dst], k[src]
    logits = beta * (q_edge * k_edge).sum(-1)  # [E, H]
    top = logits.new_zeros(q.shape[:2]).scatter_reduce(
        0,
        dst.unsqueeze(-1).expand_as(logits),
        logits.detach(),
        'amax',
        include_self=False,
    )
    weight = (logits - top[dst]).exp()
    total = torch.zeros_like(top).index_add(0, dst, weight)
    p = (weight / total[dst]).unsqueeze(-1)
    u = torch.zeros_like(q).index_add(0, dst, p * k_edge)
    v = torch.zeros_like(k).index_add(0, src, p * q_edge)
    return top + total.log(), u, v


def scatter_formula(q, k, edge_index, beta, rowptr):
    """Edge-wise with the operations of torch-scatter."""
    import torch_scatter

    src, dst = edge_index
    num_nodes = q.size(0)
    q_edge, k_edge = q.index_select(0, dst), k.index_select(0, src)
    logits = beta * (q_edge * k_edge).sum(-1)  # [E, H]
    softmax_, logsumexp = (
        torch_scatter.scatter_softmax,
        torch_scatter.scatter_logsumexp,
    )
    p = softmax_(logits, dst, dim=0, dim_size=num_nodes).unsqueeze(-1)
    lse = logsumexp(logits, dst, dim=0, dim_size=num_nodes)
    u = torch_scatter.segment_csr(p * k_edge, rowptr)
    v = torch_scatter.scatter(p * q_edge, src, dim=0, dim_size=num_nodes)
    return lse, u, v


def pyg_side(problem):
    edges, beta = problem.edge_index, problem.beta
    return problem.side(lambda q, k: pyg_formula(q, k, edges, beta))


def scatter_side(problem):
    need('torch_scatter')
    fixed = (problem.edge_index, problem.beta, problem.graph.rowptr)
    return problem.side(lambda q, k: scatter_formula(q, k, *fixed))


def compiled_side(problem):
    fixed = (problem.edge_index, problem.beta)
    compiled = torch.compile(plain_formula, dynamic=False)
    side = problem.side(lambda q, k: compiled(q, k, *fixed))
    try:
        side.value()
        side.gradients()
    except Exception as error:  # whatever a compiler may lack
        reason = str(error).strip().partition('\n')[0]
        raise Missing(f'does not compile: {reason}') from error
    return side


def our_side(backend, problem):
    graph, beta = problem.graph, problem.beta
    return problem.side(
        lambda q, k: energy_attention(q, k, graph, beta),
        context=partial(use_backend, backend),
    )


def layer_side(layer, with_adj, problem):
    """A PyG layer of the same width; it returns one aggregated output."""
    num_nodes, heads, channels = problem.q.shape
    size = (num_nodes, num_nodes)
    if with_adj:
        need('torch_sparse')
        from torch_sparse import SparseTensor

        col, row = problem.edge_index
        edges = SparseTensor(row=row, col=col, sparse_sizes=size)
    else:
        edges = EdgeIndex(
            problem.edge_index, sparse_size=size, sort_order='col'
        ).fill_cache_()
    torch.manual_seed(0)
    conv = layer(heads * channels, channels, heads, bias=False).to(problem.q)
    x = problem.q.detach().flatten(1).requires_grad_()
    return Side(
        lambda: (conv(x, edges),),
        (x, *conv.parameters()),
        (problem.weights[1].flatten(1),),
        same_function=False,
    )


def need(module):
    """Raises `Missing` if an optional package cannot be imported."""
    try:
        __import__(module)
    except ImportError as error:
        raise Missing(f'{module} is not installed') from error


def our_backends(device):
    """Our backends that can run on a device, the definition excluded."""
    others = {'reference', *{'cpu', 'cuda'} - {device}}
    return [
        name
        for name, status in backends().items()
        if status.available and name not in others
    ]


def all_methods(device='cpu'):
    """Builder of a side by name; the first is the measure of ratios."""
    gat = partial(GATConv, add_self_loops=False)
    methods = {
        'pyg softmax': pyg_side,
        'torch-scatter': scatter_side,
        'torch.compile': compiled_side,
        'TransformerConv': partial(layer_side, TransformerConv, False),
        'TransformerConv adj': partial(layer_side, TransformerConv, True),
        'GATConv': partial(layer_side, gat, False),
        'GATConv adj': partial(layer_side, gat, True),
    }
    for backend in our_backends(device):
        methods[OURS + backend] = partial(our_side, backend)
    return methods
