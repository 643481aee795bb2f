// The native operators: their schemas, and the CPU kernels behind them.
//
// Only the stable ABI of libtorch (2.10 on) is used, so that one binary
// serves all later versions. The operators know nothing of autograd; they
// are called by ops/library.py, which checks the user's arguments.
#include <Python.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include "cpu/group.h"
#include "cpu/kernels.h"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

void run(int64_t count, teg::Task task, void* context) {
  const int64_t available = torch::stable::get_num_threads();
  const int64_t threads = count < available ? count : available;
  if (threads <= 1) {
    for (int64_t i = 0; i < count; ++i) {
      task(context, i);
    }
    return;
  }
  // whoever is free takes the next task: cores may be unequally busy
  std::atomic<int64_t> next{0};
  torch::stable::parallel_for(0, threads, 1, [&](int64_t, int64_t) {
    for (int64_t i = next++; i < count; i = next++) {
      task(context, i);
    }
  });
}

struct Choice {
  const char* name;
  const teg::Kernels* kernels;
};

Choice choose() {
  const char* wish = std::getenv("TEG_CPU_ISA");
  const bool any = wish == nullptr || *wish == '\0';
#ifdef TEG_X86_CLONES
  __builtin_cpu_init();
  if ((any || !std::strcmp(wish, "v4")) &&
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma")) {
    return {"v4", &teg::kernels_v4};
  }
  if ((any || !std::strcmp(wish, "v3")) && __builtin_cpu_supports("avx2") &&
      __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
    return {"v3", &teg::kernels_v3};
  }
#endif
  STD_TORCH_CHECK(
      any || !std::strcmp(wish, "generic"),
      "TEG_CPU_ISA=", wish, " is not built in or not supported by this CPU; ",
      "unset it, or use generic");
  return {"generic", &teg::kernels_generic};
}

const Choice& chosen() {
  static const Choice choice = choose();
  return choice;
}

std::string cpu_isa() {
  return chosen().name;
}

void check(const Tensor& t, const char* name, ScalarType type, int64_t dim) {
  STD_TORCH_CHECK(
      t.scalar_type() == type && t.dim() == dim && t.is_contiguous() &&
          t.is_cpu(),
      name, " has a wrong type, number of dimensions, layout or device");
}

teg::Storage storage_of(const Tensor& t) {
  switch (t.scalar_type()) {
    case ScalarType::Float: return teg::Storage::kFloat;
    case ScalarType::Double: return teg::Storage::kDouble;
    case ScalarType::BFloat16: return teg::Storage::kBFloat16;
    default: STD_TORCH_CHECK(false, "no kernel for this floating-point type");
  }
}

// The type of sums.
ScalarType wide(const Tensor& t) {
  return t.scalar_type() == ScalarType::Double ? ScalarType::Double
                                               : ScalarType::Float;
}

teg::Order order_of(
    const Tensor& ptr, const Tensor& minor, const Tensor& edge,
    const Tensor& order, const Tensor& chunks, int64_t num_rows) {
  check(ptr, "ptr", ScalarType::Long, 1);
  for (const Tensor* t : {&minor, &edge, &order, &chunks}) {
    check(*t, "an array of the graph", ScalarType::Int, 1);
  }
  const int64_t* begin = ptr.const_data_ptr<int64_t>();
  STD_TORCH_CHECK(
      ptr.size(0) == num_rows + 1 && order.size(0) == num_rows &&
          chunks.size(0) >= 1 && edge.size(0) == minor.size(0) &&
          begin[0] == 0 && begin[num_rows] == minor.size(0),
      "the arrays of the graph do not fit together");
  return {
      num_rows,
      begin,
      minor.const_data_ptr<int32_t>(),
      edge.const_data_ptr<int32_t>(),
      order.const_data_ptr<int32_t>(),
      chunks.const_data_ptr<int32_t>(),
      chunks.size(0) - 1};
}

teg::Attention attention_of(
    const Tensor& q, const Tensor& k, const std::optional<Tensor>& bias,
    const Tensor& rowptr, const Tensor& col, const Tensor& edge_row,
    const Tensor& colptr, const Tensor& row, const Tensor& edge_col,
    const Tensor& dst_order, const Tensor& dst_chunks,
    const Tensor& src_order, const Tensor& src_chunks) {
  check(q, "q", q.scalar_type(), 3);
  check(k, "k", q.scalar_type(), 3);
  STD_TORCH_CHECK(
      q.size(1) == k.size(1) && q.size(2) == k.size(2) &&
          q.size(2) <= teg::kMaxChannels,
      "q and k must have the same heads, of up to 1024 channels");
  STD_TORCH_CHECK(
      col.size(0) == row.size(0), "the two orders have different edges");
  if (bias) {
    check(*bias, "bias", wide(q), 2);
    STD_TORCH_CHECK(
        bias->size(0) == col.size(0) && bias->size(1) == q.size(1),
        "bias must have shape [E, H]");
  }
  teg::Attention at{};
  at.storage = storage_of(q);
  at.heads = q.size(1);
  at.channels = q.size(2);
  at.targets =
      order_of(rowptr, col, edge_row, dst_order, dst_chunks, q.size(0));
  at.sources =
      order_of(colptr, row, edge_col, src_order, src_chunks, k.size(0));
  at.q = q.const_data_ptr();
  at.k = k.const_data_ptr();
  at.bias = bias ? bias->const_data_ptr() : nullptr;
  return at;
}

std::tuple<Tensor, Tensor, Tensor> attention_forward(
    Tensor q, Tensor k, std::optional<Tensor> bias, Tensor rowptr, Tensor col,
    Tensor edge_row, Tensor colptr, Tensor row, Tensor edge_col,
    Tensor dst_order, Tensor dst_chunks, Tensor src_order,
    Tensor src_chunks) {
  teg::Attention at = attention_of(
      q, k, bias, rowptr, col, edge_row, colptr, row, edge_col, dst_order,
      dst_chunks, src_order, src_chunks);
  Tensor lse = torch::stable::new_empty(q, {q.size(0), q.size(1)}, wide(q));
  Tensor u = torch::stable::empty_like(q);
  Tensor v = torch::stable::empty_like(k);
  at.lse = lse.mutable_data_ptr();
  at.u = u.mutable_data_ptr();
  at.v = v.mutable_data_ptr();
  chosen().kernels->attention(at, &run);
  return {lse, u, v};
}

std::tuple<Tensor, Tensor, Tensor> attention_backward(
    Tensor grad_lse, Tensor grad_u, Tensor grad_v, Tensor q, Tensor k,
    std::optional<Tensor> bias, Tensor lse, Tensor u, Tensor rowptr,
    Tensor col, Tensor edge_row, Tensor colptr, Tensor row, Tensor edge_col,
    Tensor dst_order, Tensor dst_chunks, Tensor src_order,
    Tensor src_chunks) {
  teg::AttentionBackward at{};
  at.forward = attention_of(
      q, k, bias, rowptr, col, edge_row, colptr, row, edge_col, dst_order,
      dst_chunks, src_order, src_chunks);
  check(lse, "lse", wide(q), 2);
  check(grad_lse, "grad_lse", wide(q), 2);
  STD_TORCH_CHECK(
      lse.size(0) == q.size(0) && lse.size(1) == q.size(1) &&
          grad_lse.size(0) == q.size(0) && grad_lse.size(1) == q.size(1),
      "lse and its gradient must have shape [N_dst, H]");
  for (auto [t, of] : {std::pair{&u, &q}, {&grad_u, &q}, {&grad_v, &k}}) {
    check(*t, "u or a gradient", q.scalar_type(), 3);
    for (int64_t d = 0; d < 3; ++d) {
      STD_TORCH_CHECK(
          t->size(d) == of->size(d), "u or a gradient has a wrong shape");
    }
  }
  Tensor grad_q = torch::stable::empty_like(q);
  Tensor grad_k = torch::stable::empty_like(k);
  Tensor grad_bias = bias ? torch::stable::empty_like(*bias)
                          : torch::stable::new_empty(q, {0}, wide(q));
  at.forward.lse = lse.mutable_data_ptr();
  at.forward.u = u.mutable_data_ptr();
  at.grad_lse = grad_lse.const_data_ptr();
  at.grad_u = grad_u.const_data_ptr();
  at.grad_v = grad_v.const_data_ptr();
  at.grad_q = grad_q.mutable_data_ptr();
  at.grad_k = grad_k.mutable_data_ptr();
  at.grad_bias = bias ? grad_bias.mutable_data_ptr() : nullptr;
  chosen().kernels->attention_backward(at, &run);
  return {grad_q, grad_k, grad_bias};
}

teg::Softmax softmax_of(
    const Tensor& values, const Tensor& ptr,
    const std::optional<Tensor>& perm) {
  check(values, "the values", values.scalar_type(), 2);
  check(ptr, "ptr", ScalarType::Long, 1);
  const int64_t groups = ptr.size(0) - 1;
  const int64_t* begin = ptr.const_data_ptr<int64_t>();
  STD_TORCH_CHECK(
      groups >= 0 && begin[0] == 0 && begin[groups] == values.size(0),
      "ptr must go from 0 to the number of values");
  if (perm) {
    check(*perm, "perm", ScalarType::Int, 1);
    STD_TORCH_CHECK(
        perm->size(0) == values.size(0), "perm must have one entry per value");
  }
  teg::Softmax at{};
  at.storage = storage_of(values);
  at.num_groups = groups;
  at.columns = values.size(1);
  at.ptr = begin;
  at.perm = perm ? perm->const_data_ptr<int32_t>() : nullptr;
  return at;
}

Tensor softmax_forward(Tensor src, Tensor ptr, std::optional<Tensor> perm) {
  teg::Softmax at = softmax_of(src, ptr, perm);
  Tensor out = torch::stable::empty_like(src);
  at.src = src.const_data_ptr();
  at.result = out.mutable_data_ptr();
  chosen().kernels->softmax(at, &run);
  return out;
}

Tensor softmax_backward(
    Tensor grad, Tensor out, Tensor ptr, std::optional<Tensor> perm) {
  teg::Softmax at = softmax_of(out, ptr, perm);
  check(grad, "the gradient", out.scalar_type(), 2);
  STD_TORCH_CHECK(
      grad.size(0) == out.size(0) && grad.size(1) == out.size(1),
      "the gradient has a wrong shape");
  Tensor grad_src = torch::stable::empty_like(out);
  at.grad = grad.const_data_ptr();
  at.out = out.const_data_ptr();
  at.result = grad_src.mutable_data_ptr();
  chosen().kernels->softmax_backward(at, &run);
  return grad_src;
}

teg::SoftmaxByIndex softmax_by_index_of(
    const Tensor& values, const Tensor& index, int64_t num_groups) {
  check(values, "the values", values.scalar_type(), 2);
  check(index, "index", ScalarType::Long, 1);
  STD_TORCH_CHECK(
      index.size(0) == values.size(0) && num_groups >= 0,
      "index must have one entry per value");
  const int64_t* ids = index.const_data_ptr<int64_t>();
  bool inside = true;
  for (int64_t e = 0; e < index.size(0); ++e) {
    inside &= ids[e] >= 0 && ids[e] < num_groups;
  }
  STD_TORCH_CHECK(inside, "an index lies outside of the groups");
  teg::SoftmaxByIndex at{};
  at.storage = storage_of(values);
  at.num_entries = index.size(0);
  at.num_groups = num_groups;
  at.columns = values.size(1);
  const int64_t threads = torch::stable::get_num_threads();
  at.parts = at.num_entries * at.columns < 32768 ? 1 : threads;
  at.index = ids;
  return at;
}

Tensor softmax_by_index(Tensor src, Tensor index, int64_t num_groups) {
  teg::SoftmaxByIndex at = softmax_by_index_of(src, index, num_groups);
  Tensor out = torch::stable::empty_like(src);
  at.src = src.const_data_ptr();
  at.result = out.mutable_data_ptr();
  chosen().kernels->softmax_by_index(at, &run);
  return out;
}

Tensor softmax_by_index_backward(
    Tensor grad, Tensor out, Tensor index, int64_t num_groups) {
  teg::SoftmaxByIndex at = softmax_by_index_of(out, index, num_groups);
  check(grad, "the gradient", out.scalar_type(), 2);
  STD_TORCH_CHECK(
      grad.size(0) == out.size(0) && grad.size(1) == out.size(1),
      "the gradient has a wrong shape");
  Tensor grad_src = torch::stable::empty_like(out);
  at.grad = grad.const_data_ptr();
  at.out = out.const_data_ptr();
  at.result = grad_src.mutable_data_ptr();
  chosen().kernels->softmax_by_index_backward(at, &run);
  return grad_src;
}

std::tuple<Tensor, Tensor> group(
    Tensor index, int64_t num_groups, std::optional<Tensor> order) {
  const int64_t count = index.size(0);
  STD_TORCH_CHECK(
      count <= INT32_MAX && num_groups >= 0,
      "up to 2^31 - 1 entries can be grouped");
  if (order) {
    check(*order, "order", ScalarType::Int, 1);
    STD_TORCH_CHECK(
        order->size(0) == count, "order must have one entry per index");
  }
  const int32_t* first = order ? order->const_data_ptr<int32_t>() : nullptr;
  Tensor ptr =
      torch::stable::new_empty(index, {num_groups + 1}, ScalarType::Long);
  Tensor perm = torch::stable::new_empty(index, {count}, ScalarType::Int);
  int64_t* bounds = ptr.mutable_data_ptr<int64_t>();
  int32_t* to = perm.mutable_data_ptr<int32_t>();
  bool inside;
  if (index.scalar_type() == ScalarType::Int) {
    check(index, "index", ScalarType::Int, 1);
    inside = teg::group(
        index.const_data_ptr<int32_t>(), first, count, num_groups, bounds, to);
  } else {
    check(index, "index", ScalarType::Long, 1);
    inside = teg::group(
        index.const_data_ptr<int64_t>(), first, count, num_groups, bounds, to);
  }
  STD_TORCH_CHECK(inside, "an index lies outside of the groups");
  return {ptr, perm};
}

}  // namespace

#define TEG_GRAPH                                                      \
  "Tensor rowptr, Tensor col, Tensor edge_row, Tensor colptr, "        \
  "Tensor row, Tensor edge_col, Tensor dst_order, Tensor dst_chunks, " \
  "Tensor src_order, Tensor src_chunks"

STABLE_TORCH_LIBRARY(torch_energy_graph_native, m) {
  m.def("attention_forward(Tensor q, Tensor k, Tensor? bias, " TEG_GRAPH
        ") -> (Tensor, Tensor, Tensor)");
  m.def(
      "attention_backward(Tensor grad_lse, Tensor grad_u, Tensor grad_v, "
      "Tensor q, Tensor k, Tensor? bias, Tensor lse, Tensor u, " TEG_GRAPH
      ") -> (Tensor, Tensor, Tensor)");
  m.def("softmax_forward(Tensor src, Tensor ptr, Tensor? perm) -> Tensor");
  m.def(
      "softmax_backward(Tensor grad, Tensor out, Tensor ptr, Tensor? perm) "
      "-> Tensor");
  m.def(
      "softmax_by_index(Tensor src, Tensor index, int num_groups) -> Tensor");
  m.def(
      "softmax_by_index_backward(Tensor grad, Tensor out, Tensor index, "
      "int num_groups) -> Tensor");
  m.def(
      "group(Tensor index, int num_groups, Tensor? order) "
      "-> (Tensor, Tensor)");
  m.def("cpu_isa() -> str");
}

STABLE_TORCH_LIBRARY_IMPL(torch_energy_graph_native, CPU, m) {
  m.impl("attention_forward", TORCH_BOX(&attention_forward));
  m.impl("attention_backward", TORCH_BOX(&attention_backward));
  m.impl("softmax_forward", TORCH_BOX(&softmax_forward));
  m.impl("softmax_backward", TORCH_BOX(&softmax_backward));
  m.impl("softmax_by_index", TORCH_BOX(&softmax_by_index));
  m.impl("softmax_by_index_backward", TORCH_BOX(&softmax_by_index_backward));
  m.impl("group", TORCH_BOX(&group));
}

STABLE_TORCH_LIBRARY_IMPL(
    torch_energy_graph_native, CompositeExplicitAutograd, m) {
  m.impl("cpu_isa", TORCH_BOX(&cpu_isa));
}

// An empty module: importing it registers the operators.
PyMODINIT_FUNC PyInit__C(void) {
  static PyModuleDef module = {
      PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr,
      nullptr, nullptr, nullptr, nullptr};
  return PyModule_Create(&module);
}
