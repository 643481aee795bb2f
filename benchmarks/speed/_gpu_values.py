"""Right values of a backend on a device, against float64 on the CPU."""

import hashlib

import torch
from _device import poison
from _graphs import edge_list, skewed_csr

from torch_energy_graph.ops import GraphCache, energy_attention, use_backend

TOLERANCES = {torch.float32: 5e-6, torch.bfloat16: 2e-2}
NAMES = ('lse', 'u', 'v', 'grad_q', 'grad_k', 'grad_beta', 'grad_bias')
SLACK = {'grad_beta': 5}  # a sum over all edges that nearly cancels
# nodes, edges, degree of the hubs, heads, channels
CASES = (
    (4_000, 120_000, 20_000, 4, 32),
    (300, 6_000, 700, 1, 7),
    (300, 6_000, 700, 3, 16),
    (300, 6_000, 700, 8, 64),
    (300, 6_000, 700, 2, 128),
)


def check_values(backend, device):
    """Rows of relative errors, equal bits on repeat, and a hash of them."""
    for dtype, tolerance in TOLERANCES.items():
        for num_nodes, num_edges, hub, heads, channels in CASES:
            graph = hub_graph(num_nodes, num_edges, hub)
            inputs = draw(graph, heads, channels, dtype)
            wide = [tensor.double() for tensor in inputs]
            expected = evaluate('reference', wide, graph)
            inputs = [tensor.to(device) for tensor in inputs]
            graph = graph.to(device)
            poison(inputs[0])
            out = evaluate(backend, inputs, graph)
            poison(inputs[0])
            again = evaluate(backend, inputs, graph)
            errors = dict(zip(NAMES, map(error, out, expected), strict=True))
            same = all(map(torch.equal, out, again))
            right = all(
                value <= tolerance * SLACK.get(name, 1)
                for name, value in errors.items()
            )
            yield {
                'dtype': str(dtype).removeprefix('torch.'),
                'nodes': num_nodes,
                'edges': graph.num_edges,
                'heads': heads,
                'channels': channels,
                'errors': errors,
                'ok': right and same,
                'same_bits': same,
                'sha256': digest(out),
            }


def hub_graph(num_nodes, num_edges, hub):
    """A skewed graph with a hub target and a hub source; node 0 is empty."""
    edges = edge_list(*skewed_csr(num_nodes, num_edges))
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(1, num_nodes, (2, hub), generator=generator)
    to_hub = torch.stack([src, torch.ones_like(src)])
    from_hub = torch.stack([torch.full_like(dst, 2), dst])
    edges = torch.cat([edges, to_hub, from_hub], dim=1)
    return GraphCache.from_edge_index(edges, num_nodes)


def draw(graph, heads, channels, dtype):
    """Inputs q, k, beta and bias, then weights of lse, u and v."""
    torch.manual_seed(0)
    shape = (graph.num_dst, heads, channels)
    q, k, weight_u, weight_v = torch.randn(4, *shape).to(dtype)
    beta = (torch.rand(heads) + 0.5) * channels**-0.5
    bias = torch.randn(graph.num_edges, heads).to(dtype)
    return q, k, beta, bias, torch.randn(shape[:2]), weight_u, weight_v


def evaluate(backend, inputs, graph):
    """Outputs and gradients; rows without edges count as lse 0."""
    *leaves, weight_lse, weight_u, weight_v = inputs
    q, k, beta, bias = (t.detach().clone().requires_grad_() for t in leaves)
    with use_backend(backend):
        lse, u, v = energy_attention(q, k, graph, beta, bias)
        lse = lse.masked_fill(lse.isinf(), 0.0)
        loss = (lse * weight_lse).sum()
        loss = loss + (u * weight_u).sum() + (v * weight_v).sum()
        grads = torch.autograd.grad(loss, (q, k, beta, bias))
    return [t.detach() for t in (lse, u, v, *grads)]


def error(out, expected):
    """Largest error relative to the largest value; inf if not finite."""
    out = out.double().cpu()
    if not out.isfinite().all():
        return torch.inf
    return float((out - expected).abs().max() / expected.abs().max())


def digest(tensors):
    """Hash of all bits, to compare kernels that must agree."""
    code = hashlib.sha256()
    for tensor in tensors:
        code.update(tensor.cpu().contiguous().view(torch.uint8).numpy())
    return code.hexdigest()
