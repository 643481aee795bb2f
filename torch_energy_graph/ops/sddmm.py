"""The `torch` backend: sampled products and sparse products per head.

Same formulas as :mod:`.reference`, evaluated with PyTorch's CSR kernels in
two sweeps: over the targets with their sources, and over the sources with
their targets, where the softmax weights are computed again from L. No tensor
of shape `[E, H, Y]` is born. CSR kernels refuse half types, which are
computed in float32.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor

from .graph import GraphCache
from .heap import release_freed_memory

__all__ = ['backward', 'forward']

_BLOCK = 2**18  # edges of a block
_HUB = 2**13  # edges of one running sum

with warnings.catch_warnings():
    # torch says once per process that CSR is in beta; users need not know
    warnings.simplefilter('ignore')
    torch.eye(1).to_sparse_csr()


def forward(
    q: Tensor, k: Tensor, bias: Tensor | None, graph: GraphCache
) -> tuple[Tensor, Tensor, Tensor]:
    """Evaluates Eq. (1) and (2) of the reference, head by head."""
    _tidy(graph.col)
    dtype, (q, k) = q.dtype, _heads_first(q, k)  # [H, N, Y]
    lse = q.new_full(q.shape[:2], -torch.inf)  # [H, N_dst]
    u, v = torch.zeros_like(q), torch.zeros_like(k)
    for rows in _by_target(graph, q):
        at = rows.span
        for h in range(q.size(0)):
            p = rows.logits(q[h], k[h], bias, h)  # [E of the block]
            lse[h, at] = rows.logsumexp(p)
            p.sub_(rows.at_targets(_finite(lse[h]))).exp_()
            u[h, at] = rows.total(k[h])
    shift = _finite(lse)
    for rows in _by_source(graph, q):
        for h in range(q.size(0)):
            p = rows.logits(k[h], q[h], bias, h)
            p.sub_(rows.at_targets(shift[h])).exp_()
            v[h, rows.span] = rows.total(q[h])
    return lse.t().contiguous(), _nodes_first(u, dtype), _nodes_first(v, dtype)


def backward(
    grads: tuple[Tensor, Tensor, Tensor],
    q: Tensor,
    k: Tensor,
    bias: Tensor | None,
    lse: Tensor,
    u: Tensor,
    graph: GraphCache,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Evaluates Eq. (3) to (5) of the reference, head by head."""
    _tidy(graph.col)
    dtype = q.dtype
    q, k, u, grad_u, grad_v = _heads_first(q, k, u, *grads[1:])
    shift = _finite(lse).t().contiguous()  # [H, N_dst]
    tau = (grad_u * u).sum(-1) - grads[0].t()  # [H, N_dst]
    target = torch.cat([grad_u, q], dim=-1)  # [H, N_dst, 2Y]
    source = torch.cat([k, grad_v], dim=-1)  # [H, N_src, 2Y]
    grad_q, grad_k = torch.zeros_like(q), torch.zeros_like(k)
    grad_bias = None if bias is None else torch.zeros_like(bias)
    for rows in _by_target(graph, q):
        at = rows.span
        for h in range(q.size(0)):
            p = rows.logits(q[h], k[h], bias, h)  # [E of the block]
            p.sub_(rows.at_targets(shift[h])).exp_()
            pulled = rows.total(grad_v[h])
            tau[h, at] += (q[h, at] * pulled).sum(-1)
            t = rows.sample(target[h], source[h], rows.products)
            # from here on, p and the weights are the logits' gradient
            p.mul_(t.sub_(rows.at_targets(tau[h])))
            grad_q[h, at] = pulled + rows.total(k[h])
            if grad_bias is not None:
                grad_bias[rows.edge, h] = p.to(grad_bias.dtype)
    for rows in _by_source(graph, q):
        at = rows.span
        for h in range(q.size(0)):
            p = rows.logits(k[h], q[h], bias, h)
            p.sub_(rows.at_targets(shift[h])).exp_()
            pulled = rows.total(grad_u[h])
            t = rows.sample(source[h], target[h], rows.products)
            p.mul_(t.sub_(rows.at_targets(tau[h])))
            grad_k[h, at] = pulled + rows.total(q[h])
    return _nodes_first(grad_q, dtype), _nodes_first(grad_k, dtype), grad_bias


class _Rows:
    """A block of consecutive rows of a sparse matrix, and its products.

    Values per edge live in buffers that all blocks and heads share: fresh
    ones for every product would scatter the heap.

    Args:
        span (slice): Which rows.
        ptr (Tensor): Row pointers of the block, from zero.
        minor (Tensor): The other end of every edge of the block.
        edge (Tensor): Its position in the caller's order.
        target (Tensor): Its target.
        num_minor (int): Number of columns.
        buffers (Tensor): Three rows of at least as many values as edges.
    """

    def __init__(
        self,
        span: slice,
        ptr: Tensor,
        minor: Tensor,
        edge: Tensor,
        target: Tensor,
        num_minor: int,
        buffers: Tensor,
    ) -> None:
        self.span, self.edge, self.target = span, edge, target
        self.ptr, self.minor = ptr, minor
        values, products, self.scratch = buffers[:, : minor.size(0)]
        size = (ptr.size(0) - 1, num_minor)
        index = ptr.to(minor.dtype), minor  # CSR kernels want one type
        self.weights = torch.sparse_csr_tensor(
            *index, values.zero_(), size, check_invariants=False
        )
        self.products = torch.sparse_csr_tensor(
            *index, products.zero_(), size, check_invariants=False
        )
        self.pieces = self._in_pieces(_HUB)

    def sample(self, major: Tensor, minor: Tensor, out: Tensor) -> Tensor:
        """Dot products of the two ends of every edge, as values of `out`."""
        values, major = out.values(), major[self.span]
        if values.size(0) > out.size(0) * out.size(1):
            # more parallel edges than a matrix has places: refused by torch
            rows = torch.arange(out.size(0), device=values.device)
            rows = rows.repeat_interleave(self.ptr.diff())
            pairs = major[rows] * minor[self.minor]
            return torch.sum(pairs, -1, out=values)
        values.zero_()  # beta times what stood there must not be NaN
        torch.sparse.sampled_addmm(out, major, minor.t(), beta=0.0, out=out)
        return values

    def logits(
        self, major: Tensor, minor: Tensor, bias: Tensor | None, head: int
    ) -> Tensor:
        """Logits of every edge, as values of the weights."""
        logits = self.sample(major, minor, self.weights)
        if bias is not None:
            logits += bias[:, head].index_select(0, self.edge)
        return logits

    def total(self, nodes: Tensor) -> Tensor:
        """Sum of the other ends of every row, by the weights."""
        if self.pieces is None:
            return self.weights @ nodes
        matrix, bounds = self.pieces
        return torch.segment_reduce(
            matrix @ nodes, 'sum', offsets=bounds, initial=0.0
        )

    def _in_pieces(self, hub: int) -> tuple[Tensor, Tensor] | None:
        """The weights with hubs cut, and which pieces make up a row.

        One running sum in float32 over all neighbours of a hub drifts.
        """
        degree = self.ptr.diff()
        if not degree.numel() or int(degree.max()) <= hub:
            return None
        count = (degree + hub - 1) // hub  # pieces of every row
        bounds = torch.cat([count.new_zeros(1), count.cumsum(0)])
        total = int(bounds[-1])
        row = torch.arange(degree.size(0), device=degree.device)
        row = row.repeat_interleave(count, output_size=total)
        piece = torch.arange(total, device=row.device) - bounds[row]
        ptr = torch.cat([self.ptr[row] + piece * hub, self.ptr[-1:]])
        matrix = torch.sparse_csr_tensor(
            ptr.to(self.minor.dtype), self.minor, self.weights.values(),
            (total, self.weights.size(1)), check_invariants=False,
        )  # fmt: skip
        return matrix, bounds

    def logsumexp(self, logits: Tensor) -> Tensor:
        """Log-sum-exp of every row, -inf where it is empty."""
        top = torch.segment_reduce(
            logits, 'max', offsets=self.ptr, initial=-torch.inf
        )
        top = _finite(top)
        rows = self.target - self.span.start
        terms = torch.index_select(top, 0, rows, out=self.scratch)
        torch.sub(logits, terms, out=terms).exp_()
        # hubs: a float32 running sum of many small terms drifts
        total = torch.segment_reduce(terms.double(), 'sum', offsets=self.ptr)
        return total.log().to(logits.dtype) + top

    def at_targets(self, nodes: Tensor) -> Tensor:
        """Value of the target of every edge."""
        return torch.index_select(nodes, 0, self.target, out=self.scratch)


def _by_target(graph: GraphCache, like: Tensor) -> Iterator[_Rows]:
    """Blocks of targets with their sources."""
    order = graph.rowptr, graph.col, graph.edge_row
    return _sweep(*order, graph.num_src, like, rows_are_targets=True)


def _by_source(graph: GraphCache, like: Tensor) -> Iterator[_Rows]:
    """Blocks of sources with their targets."""
    order = graph.colptr, graph.row, graph.edge_col
    return _sweep(*order, graph.num_dst, like, rows_are_targets=False)


def _sweep(
    ptr: Tensor,
    minor: Tensor,
    edge: Tensor,
    num_minor: int,
    like: Tensor,
    rows_are_targets: bool,
) -> Iterator[_Rows]:
    _tidy(minor)
    blocks = _blocks(ptr)
    largest = max((e.stop - e.start for _, e in blocks), default=0)
    buffers = like.new_empty(3, largest)
    for span, edges in blocks:
        local = ptr[span.start : span.stop + 1] - edges.start
        target = minor[edges]
        if rows_are_targets:
            rows = torch.arange(span.start, span.stop, device=minor.device)
            target = rows.to(minor.dtype).repeat_interleave(local.diff())
        yield _Rows(
            span, local, minor[edges], edge[edges], target, num_minor, buffers
        )


def _blocks(ptr: Tensor) -> list[tuple[slice, slice]]:
    """Spans of rows, and of their edges, in blocks of work.

    A block has about `_BLOCK` edges (more, if one row has), so that its
    values stay in cache.
    """
    num_edges = int(ptr[-1])
    marks = torch.arange(
        _BLOCK, max(num_edges, _BLOCK), _BLOCK, device=ptr.device
    )
    cuts = torch.searchsorted(ptr, marks).tolist()
    bounds = sorted({0, *cuts, ptr.size(0) - 1})
    starts = ptr[bounds].tolist()
    return [
        (slice(*bounds[i : i + 2]), slice(*starts[i : i + 2]))
        for i in range(len(bounds) - 1)
        if starts[i + 1] > starts[i]
    ]


def _tidy(edges: Tensor) -> None:
    """Gives freed memory back, if the graph is so large that it matters."""
    if edges.size(0) > _BLOCK:
        release_freed_memory(edges.device)


def _finite(lse: Tensor) -> Tensor:
    """Zero in place of -inf: exp(-inf - 0) is the weight that is meant."""
    return lse.masked_fill(lse.isinf(), 0.0)


def _heads_first(*tensors: Tensor) -> list[Tensor]:
    dtype = torch.promote_types(tensors[0].dtype, torch.float32)
    return [t.to(dtype).transpose(0, 1).contiguous() for t in tensors]


def _nodes_first(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.transpose(0, 1).to(dtype).contiguous()
