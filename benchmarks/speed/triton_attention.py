r"""Energy attention in Triton: the forward pass, for comparison only.

One program per row, all heads in a tile, `block` edges at a time:

.. math::
    L_i = \log \sum_e \exp(l_e), \quad u_i = \sum_e p_e k_j, \quad
    v_j = \sum_e p_e q_i, \quad l_e = \beta q_i^\top k_j, \quad
    p_e = \exp(l_e - L_i)

The sweep over targets holds running maxima and sums per head (online
softmax, https://arxiv.org/abs/1805.02867) and rescales them once per block;
the sweep over sources reads L. No hub is split. Without a GPU it runs in
Triton's interpreter (`TRITON_INTERPRET=1`).
"""

import torch
import triton
import triton.language as tl

# Names of compile-time constants follow the formulas: H heads of Y channels.


@triton.jit
def _by_target(
    q,
    k,
    rowptr,
    col,
    lse,
    u,
    beta,
    H: tl.constexpr,
    Y: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    at = tl.arange(0, H * Y)
    query = tl.load(q + row * (H * Y) + at).to(tl.float32) * beta
    top = tl.full([H], float('-inf'), tl.float32)
    total = tl.zeros([H], tl.float32)
    mean = tl.zeros([H, Y], tl.float32)
    for first in range(start, end, BLOCK):
        edge = first + tl.arange(0, BLOCK)
        real = edge < end
        src = tl.load(col + edge, mask=real, other=0).to(tl.int64)
        where = src[:, None] * (H * Y) + at[None, :]
        key = tl.load(k + where, mask=real[:, None], other=0.0)
        key = key.to(tl.float32)  # [BLOCK, H * Y]
        product = tl.reshape(key * query[None, :], [BLOCK, H, Y])
        logit = tl.where(real[:, None], tl.sum(product, 2), float('-inf'))
        new_top = tl.maximum(top, tl.max(logit, 0))  # [H]
        shrink = tl.exp(top - new_top)
        weight = tl.exp(logit - new_top[None, :])  # [BLOCK, H]
        total = total * shrink + tl.sum(weight, 0)
        pull = tl.reshape(key, [BLOCK, H, Y]) * weight[:, :, None]
        mean = mean * shrink[:, None] + tl.sum(pull, 0)
        top = new_top
    # an empty row: log(0) = -inf, and u = 0
    tl.store(
        lse + row * H + tl.arange(0, H),
        tl.where(total > 0, top + tl.log(total), float('-inf')),
    )
    mean = mean / tl.where(total > 0, total, 1.0)[:, None]
    out = tl.reshape(mean, [H * Y]).to(u.dtype.element_ty)
    tl.store(u + row * (H * Y) + at, out)


@triton.jit
def _by_source(
    q,
    k,
    colptr,
    row,
    lse,
    v,
    beta,
    H: tl.constexpr,
    Y: tl.constexpr,
    BLOCK: tl.constexpr,
):
    src = tl.program_id(0).to(tl.int64)
    start, end = tl.load(colptr + src), tl.load(colptr + src + 1)
    at, head = tl.arange(0, H * Y), tl.arange(0, H)
    key = tl.load(k + src * (H * Y) + at).to(tl.float32) * beta
    out = tl.zeros([H, Y], tl.float32)
    for first in range(start, end, BLOCK):
        edge = first + tl.arange(0, BLOCK)
        real = edge < end
        dst = tl.load(row + edge, mask=real, other=0).to(tl.int64)
        where = dst[:, None] * (H * Y) + at[None, :]
        query = tl.load(q + where, mask=real[:, None], other=0.0)
        query = query.to(tl.float32)  # [BLOCK, H * Y]
        product = tl.reshape(query * key[None, :], [BLOCK, H, Y])
        norm = tl.load(
            lse + dst[:, None] * H + head[None, :],
            mask=real[:, None],
            other=float('inf'),  # of no weight
        )
        weight = tl.exp(tl.sum(product, 2) - norm)  # [BLOCK, H]
        pull = tl.reshape(query, [BLOCK, H, Y]) * weight[:, :, None]
        out += tl.sum(pull, 0)
    out = tl.reshape(out, [H * Y]).to(v.dtype.element_ty)
    tl.store(v + src * (H * Y) + at, out)


def energy_attention(q, k, graph, beta, num_warps=4, block=16):
    """Forward pass, as `torch_energy_graph.ops.energy_attention`.

    Args:
        q (Tensor): Queries [N_dst, H, Y]; H and Y are powers of two.
        k (Tensor): Keys [N_src, H, Y].
        graph (GraphCache): Edges from keys to queries.
        beta (float): Inverse temperature.
        num_warps (int): Warps per row.
        block (int): Edges at a time, a power of two.

    Returns:
        (Tensor, Tensor, Tensor): lse in float32, u and v.

    Raises:
        ValueError: If H, Y or block is no power of two.
    """
    heads, channels = q.shape[1:]
    for size in (heads, channels, block):
        if size < 1 or size & (size - 1):
            raise ValueError(
                f'Triton tiles need powers of two (got H={heads}, '
                f'Y={channels}, block={block}); use another size'
            )
    q, k = q.contiguous(), k.contiguous()
    lse = q.new_empty(q.shape[:2], dtype=torch.float32)
    u, v = torch.empty_like(q), torch.empty_like(k)
    tile = {'H': heads, 'Y': channels, 'BLOCK': block, 'num_warps': num_warps}
    _by_target[(graph.num_dst,)](
        q, k, graph.rowptr, graph.col, lse, u, beta, **tile
    )
    _by_source[(graph.num_src,)](
        q, k, graph.colptr, graph.row, lse, v, beta, **tile
    )
    return lse, u, v
