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
from dataclasses import dataclass

import torch
from torch import Tensor

from .graph import GraphCache

__all__ = ['backward', 'forward']

_BLOCK = 2**18

with warnings.catch_warnings():
    # torch says once per process that CSR is in beta; users need not know
    warnings.simplefilter('ignore')
    torch.eye(1).to_sparse_csr()


def forward(
    q: Tensor, k: Tensor, bias: Tensor | None, graph: GraphCache
) -> tuple[Tensor, Tensor, Tensor]:
    """Evaluates Eq. (1) and (2) of the reference, head by head."""
    dtype, (q, k) = q.dtype, _heads_first(q, k)  # [H, N, Y]
    lse = q.new_full(q.shape[:2], -torch.inf)  # [H, N_dst]
    u, v = torch.zeros_like(q), torch.zeros_like(k)
    for rows, h in _by_target(graph, q.size(0)):
        p = rows.logits(q[h], k[h], bias, h)  # [E of the block]
        lse[h, rows.span] = rows.logsumexp(p)
        p.sub_(rows.at_targets(_finite(lse[h]))).exp_()
        u[h, rows.span] = rows.matrix(p) @ k[h]
    shift = _finite(lse)
    for rows, h in _by_source(graph, q.size(0)):
        p = rows.logits(k[h], q[h], bias, h)
        p.sub_(rows.at_targets(shift[h])).exp_()
        v[h, rows.span] = rows.matrix(p) @ q[h]
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
    dtype = q.dtype
    q, k, u, grad_u, grad_v = _heads_first(q, k, u, *grads[1:])
    shift = _finite(lse).t().contiguous()  # [H, N_dst]
    tau = (grad_u * u).sum(-1) - grads[0].t()  # [H, N_dst]
    target = torch.cat([grad_u, q], dim=-1)  # [H, N_dst, 2Y]
    source = torch.cat([k, grad_v], dim=-1)  # [H, N_src, 2Y]
    grad_q, grad_k = torch.zeros_like(q), torch.zeros_like(k)
    grad_bias = None if bias is None else torch.zeros_like(bias)
    for rows, h in _by_target(graph, q.size(0)):
        at = rows.span
        p = rows.logits(q[h], k[h], bias, h)  # [E of the block]
        p.sub_(rows.at_targets(shift[h])).exp_()
        pulled = rows.matrix(p) @ grad_v[h]
        tau[h, at] += (q[h, at] * pulled).sum(-1)
        t = rows.sample(target[h], source[h])
        grad_logits = p.mul_(t.sub_(rows.at_targets(tau[h])))
        grad_q[h, at] = rows.matrix(grad_logits) @ k[h] + pulled
        if grad_bias is not None:
            grad_bias[rows.edge, h] = grad_logits.to(grad_bias.dtype)
    for rows, h in _by_source(graph, q.size(0)):
        p = rows.logits(k[h], q[h], bias, h)
        p.sub_(rows.at_targets(shift[h])).exp_()
        pushed = rows.matrix(p) @ grad_u[h]
        t = rows.sample(source[h], target[h])
        grad_logits = p.mul_(t.sub_(rows.at_targets(tau[h])))
        grad_k[h, rows.span] = rows.matrix(grad_logits) @ q[h] + pushed
    return _nodes_first(grad_q, dtype), _nodes_first(grad_k, dtype), grad_bias


@dataclass
class _Rows:
    """A block of consecutive rows of a sparse matrix, and its products."""

    span: slice  # which rows
    ptr: Tensor  # [rows + 1], from zero
    minor: Tensor  # [E of the block], the other end of every edge
    edge: Tensor  # [E of the block], position in the caller's order
    target: Tensor  # [E of the block]
    num_minor: int

    def matrix(self, values: Tensor) -> Tensor:
        """The sparse matrix of values per edge."""
        return torch.sparse_csr_tensor(
            self.ptr,
            self.minor,
            values,
            (self.ptr.size(0) - 1, self.num_minor),
            check_invariants=False,
        )

    def sample(self, major: Tensor, minor: Tensor) -> Tensor:
        """Dot products of the two ends of every edge."""
        num_rows = self.ptr.size(0) - 1
        if self.minor.size(0) > num_rows * self.num_minor:
            # more parallel edges than a matrix has places: refused by torch
            rows = torch.arange(num_rows, device=self.ptr.device)
            rows = rows.repeat_interleave(self.ptr.diff())
            pairs = major[self.span][rows] * minor[self.minor]
            return pairs.sum(-1)
        out = self.matrix(major.new_zeros(self.minor.size(0)))
        torch.sparse.sampled_addmm(
            out, major[self.span], minor.t(), beta=0.0, out=out
        )
        return out.values()

    def logits(
        self, major: Tensor, minor: Tensor, bias: Tensor | None, head: int
    ) -> Tensor:
        """Logits of every edge."""
        logits = self.sample(major, minor)
        if bias is not None:
            logits += bias[:, head].index_select(0, self.edge)
        return logits

    def logsumexp(self, logits: Tensor) -> Tensor:
        """Log-sum-exp of every row, -inf where it is empty."""
        rows, ptr = self.target - self.span.start, self.ptr.long()
        top = torch.segment_reduce(
            logits, 'max', offsets=ptr, initial=-torch.inf
        )
        top = _finite(top)
        # hubs: a float32 running sum of many small terms drifts
        terms = (logits - top.index_select(0, rows)).exp_().double()
        total = torch.segment_reduce(terms, 'sum', offsets=ptr)
        return total.log().to(logits.dtype) + top

    def at_targets(self, nodes: Tensor) -> Tensor:
        """Value of the target of every edge."""
        return nodes.index_select(0, self.target)


def _by_target(
    graph: GraphCache, num_heads: int
) -> Iterator[tuple[_Rows, int]]:
    targets = graph.targets().to(graph.row.dtype)
    for first, last, start, stop in _blocks(graph.rowptr):
        edges = slice(start, stop)
        rows = _Rows(
            slice(first, last),
            (graph.rowptr[first : last + 1] - start).to(graph.col.dtype),
            graph.col[edges],
            graph.edge_row[edges],
            targets[edges],
            graph.num_src,
        )
        yield from ((rows, h) for h in range(num_heads))


def _by_source(
    graph: GraphCache, num_heads: int
) -> Iterator[tuple[_Rows, int]]:
    for first, last, start, stop in _blocks(graph.colptr):
        edges = slice(start, stop)
        rows = _Rows(
            slice(first, last),
            (graph.colptr[first : last + 1] - start).to(graph.row.dtype),
            graph.row[edges],
            graph.edge_col[edges],
            graph.row[edges],
            graph.num_dst,
        )
        yield from ((rows, h) for h in range(num_heads))


def _blocks(ptr: Tensor) -> Iterator[tuple[int, int, int, int]]:
    """Rows `[first, last)` and edges `[start, stop)` of blocks of work.

    A block has about `_BLOCK` edges (more, if one row has), so that its
    temporaries stay in cache and do not scatter the heap.
    """
    num_edges = int(ptr[-1])
    marks = torch.arange(
        _BLOCK, max(num_edges, _BLOCK), _BLOCK, device=ptr.device
    )
    cuts = torch.searchsorted(ptr, marks).unique().tolist()
    bounds = sorted({0, *cuts, ptr.size(0) - 1})
    starts = ptr[bounds].tolist()
    for first, last, start, stop in zip(
        bounds, bounds[1:], starts, starts[1:], strict=False
    ):
        if stop > start:
            yield first, last, start, stop


def _finite(lse: Tensor) -> Tensor:
    """Zero in place of -inf: exp(-inf - 0) is the weight that is meant."""
    return lse.masked_fill(lse.isinf(), 0.0)


def _heads_first(*tensors: Tensor) -> list[Tensor]:
    dtype = torch.promote_types(tensors[0].dtype, torch.float32)
    return [t.to(dtype).transpose(0, 1).contiguous() for t in tensors]


def _nodes_first(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.transpose(0, 1).to(dtype).contiguous()
