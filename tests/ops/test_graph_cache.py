import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_geometric import EdgeIndex
from torch_geometric.utils import to_torch_csc_tensor

from torch_energy_graph.ops import GraphCache, coo_edges, native
from torch_energy_graph.ops.grouping import group, group_ids

EDGES = torch.tensor([[2, 0, 0, 1, 2], [1, 1, 2, 1, 1]])  # 2 -> 1 twice


def test_both_orders_by_hand():
    graph = GraphCache.from_edge_index(EDGES, 4)
    assert graph.rowptr.tolist() == [0, 0, 4, 5, 5]
    assert graph.col.tolist() == [0, 1, 2, 2, 0]
    assert graph.edge_row.tolist() == [1, 3, 0, 4, 2]
    assert graph.colptr.tolist() == [0, 2, 3, 5, 5]
    assert graph.row.tolist() == [1, 2, 1, 1, 1]
    assert graph.edge_col.tolist() == [1, 2, 3, 0, 4]
    assert graph.targets().tolist() == [1, 1, 1, 1, 2]
    assert graph.in_degree().tolist() == [0, 4, 1, 0]
    assert graph.out_degree().tolist() == [2, 1, 2, 0]
    assert graph.rowptr.dtype == torch.int64
    assert graph.col.dtype == graph.edge_row.dtype == torch.int32


@given(st.integers(1, 9), st.integers(0, 30), st.integers(0, 1000))
def test_edges_come_back_in_the_order_of_the_caller(nodes, edges, seed):
    gen = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(nodes, (2, edges), generator=gen)
    graph = GraphCache.from_edge_index(edge_index, nodes)
    assert torch.equal(graph.edge_index(), edge_index)
    src, dst = edge_index
    assert torch.equal(dst[graph.edge_row.long()], graph.targets())
    assert torch.equal(dst[graph.edge_col.long()], graph.row.long())
    assert torch.equal(src[graph.edge_row.long()], graph.col.long())


@pytest.mark.parametrize('sort_order', ['row', 'col', None])
@pytest.mark.parametrize('size', [(4, 4), None])
def test_edge_index_keeps_its_own_order(sort_order, size):
    order = torch.arange(5)
    if sort_order is not None:
        order = EDGES[0 if sort_order == 'row' else 1].argsort(stable=True)
    edge_index = EdgeIndex(
        EDGES[:, order], sparse_size=size, sort_order=sort_order
    )
    graph = GraphCache.from_edge_index(edge_index, 4)
    assert torch.equal(graph.edge_index(), EDGES[:, order])
    assert graph.rowptr.tolist() == [0, 0, 4, 5, 5]
    assert graph.colptr.tolist() == [0, 2, 3, 5, 5]


def test_sparse_rows_are_targets():
    edge_index = torch.tensor([[2, 0, 1], [1, 1, 2]])
    weight = torch.tensor([5.0, 6.0, 7.0])
    adj_t = to_torch_csc_tensor(edge_index, weight, size=(3, 3)).t()
    found, value = coo_edges(adj_t)
    pairs = dict(zip(map(tuple, found.t().tolist()), value, strict=True))
    assert pairs == {(2, 1): 5.0, (0, 1): 6.0, (1, 2): 7.0}


def test_a_cache_passes_through_and_moves():
    graph = GraphCache.from_edge_index(EDGES, 4)
    assert GraphCache.from_edge_index(graph, 4) is graph
    assert torch.equal(graph.to('cpu').edge_index(), EDGES)
    meta = graph.to('meta')
    assert meta.device.type == 'meta'
    assert (meta.num_src, meta.num_dst, meta.num_edges) == (4, 4, 5)


def test_it_is_a_pytree_of_tensors():
    graph = GraphCache.from_edge_index(EDGES, 4)
    leaves, spec = torch.utils._pytree.tree_flatten(graph)
    assert len(leaves) == 10
    back = torch.utils._pytree.tree_unflatten(leaves, spec)
    assert torch.equal(back.edge_index(), EDGES)


@given(
    st.integers(1, 9), st.integers(1, 9), st.integers(0, 40),
    st.integers(0, 1000),
)  # fmt: skip
def test_from_csr_equals_from_edges(num_src, num_dst, num_edges, seed):
    gen = torch.Generator().manual_seed(seed)
    src = torch.randint(num_src, (num_edges,), generator=gen)
    dst = torch.randint(num_dst, (num_edges,), generator=gen)
    order = (dst * num_src + src).argsort(stable=True)
    src, dst = src[order], dst[order]
    rowptr = torch.searchsorted(dst, torch.arange(num_dst + 1))
    found = GraphCache.from_csr(rowptr, src.int(), num_src)
    expected = GraphCache.from_edge_index(
        torch.stack([src, dst]), (num_src, num_dst)
    )
    for a, b in zip(found.arrays(), expected.arrays(), strict=True):
        assert torch.equal(a, b)
        assert a.dtype == b.dtype


def test_from_csr_refuses_what_does_not_fit():
    col = torch.tensor([0, 1, 0])
    with pytest.raises(ValueError, match='rise from 0 to the 3 edges'):
        GraphCache.from_csr(torch.tensor([0, 2]), col)
    with pytest.raises(ValueError, match='rise from 0'):
        GraphCache.from_csr(torch.tensor([0, 3, 2, 3]), col)
    with pytest.raises(IndexError, match='source node 1'):
        GraphCache.from_csr(torch.tensor([0, 3]), col)


def test_the_plan_cuts_hubs_into_pieces():
    degree = torch.tensor([3, 1300, 0, 512, 513])
    rowptr = torch.cat([torch.zeros(1).long(), degree.cumsum(0)])
    num_edges = int(rowptr[-1])
    graph = GraphCache.from_csr(
        rowptr, torch.zeros(num_edges, dtype=torch.int32)
    )
    assert graph.dst_order.tolist() == [1, 4, 3, 0, 2]
    # 1300 edges in three pieces, 513 in two, 512 in none; up to 4 hubs
    assert graph.dst_chunks.tolist() == [0, 3, 5, 5, 5]
    assert graph.src_chunks.tolist() == [0, 5, 5, 5, 5]
    assert graph.src_order.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize('built', [True, False])
def test_grouping_with_and_without_the_kernel(monkeypatch, built):
    if not built:
        monkeypatch.setattr(native, 'build_error', 'pretended')
    index = torch.tensor([2, 0, 2, 1, 0, 2])
    ptr, perm = group(index, 4)
    assert ptr.tolist() == [0, 2, 3, 6, 6]
    assert perm.tolist() == [1, 4, 3, 0, 2, 5]
    assert group_ids(ptr, 6, perm).tolist() == index.tolist()
    order = torch.tensor([5, 4, 3, 2, 1, 0], dtype=torch.int32)
    assert group(index, 4, order)[1].tolist() == [4, 1, 3, 5, 2, 0]
    torch.library.opcheck(group, (index, 4))
