// The native operators on CUDA tensors. Schemas: ../bind.cpp.
//
// Only the stable ABI of libtorch (2.10 on) and the CUDA runtime are used, so
// this builds against any torch, also one without CUDA.
#include <dlfcn.h>

#include <climits>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <tuple>

#include <cuda_runtime.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include "launch.cuh"

namespace teg::cuda {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using torch::stable::accelerator::DeviceGuard;

using StreamGetter = AOTITorchError (*)(int32_t, void**);

// torch loads libtorch_cuda without making its symbols visible, and we are not
// linked to it: a weak symbol would stay null. So ask the loaded library.
StreamGetter stream_getter() {
  static const StreamGetter getter = [] {
    void* torch_cuda = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    return torch_cuda == nullptr
               ? nullptr
               : reinterpret_cast<StreamGetter>(
                     dlsym(torch_cuda, "aoti_torch_get_current_cuda_stream"));
  }();
  return getter;
}

// Launches on torch's current stream of a device.
class Stream {
 public:
  explicit Stream(int32_t device) {
    STD_TORCH_CHECK(stream_getter() != nullptr,
                    "this torch has no CUDA, or libtorch_cuda.so has no ",
                    "aoti_torch_get_current_cuda_stream");
    void* stream = nullptr;
    STABLE_TORCH_ERROR_CODE_CHECK(stream_getter()(device, &stream));
    stream_ = static_cast<cudaStream_t>(stream);
  }

  template <class Kernel, class Args>
  void operator()(Kernel kernel, unsigned x, unsigned y, unsigned threads,
                  const Args& args) const {
    kernel<<<dim3(x, y), threads, 0, stream_>>>(args);
    const cudaError_t error = cudaGetLastError();
    STD_TORCH_CHECK(error == cudaSuccess,
                    "a kernel did not start: ", cudaGetErrorString(error));
  }

 private:
  cudaStream_t stream_;
};

bool is_bf16(const Tensor& t) {
  return t.scalar_type() == ScalarType::BFloat16;
}

void check(const Tensor& t, const char* name, ScalarType type,
           std::initializer_list<int64_t> shape, int32_t device) {
  STD_TORCH_CHECK(
      t.scalar_type() == type && t.is_contiguous() && t.is_cuda() &&
          t.get_device_index() == device &&
          t.dim() == static_cast<int64_t>(shape.size()),
      name, " has a wrong type, number of dimensions, layout or device");
  int64_t d = 0;
  for (const int64_t size : shape)
    STD_TORCH_CHECK(t.size(d++) == size, name, " has a wrong shape");
}

void check_floating(const Tensor& t, const char* name) {
  STD_TORCH_CHECK(
      t.scalar_type() == ScalarType::Float || is_bf16(t),
      name, " must be float32 or bfloat16: there is no other CUDA kernel");
}

// The kernels read 16 bytes at once. Views may start anywhere; `t` becomes a
// copy then, and must outlive the launch.
void* aligned(Tensor& t) {
  if (reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 != 0)
    t = torch::stable::clone(t);
  return const_cast<void*>(t.const_data_ptr());
}

template <typename T>
const T* pointer(const Tensor& t) {
  return static_cast<const T*>(t.const_data_ptr());
}

const float* pointer_or_null(const std::optional<Tensor>& t) {
  return t ? pointer<float>(*t) : nullptr;
}

// One order of the edges: by target, or by source.
struct Order {
  const Tensor& ptr;
  const Tensor& other;
  const Tensor& edge;
  const Tensor& order;
  const Tensor& chunks;
};

Args args_of(const Order& graph, int64_t num_rows, int64_t num_edges,
             const Tensor& q, int32_t device) {
  Args args{};
  set_lanes(args, is_bf16(q), static_cast<int>(q.size(1)),
            static_cast<int>(q.size(2)));
  set_rows(args, num_rows, num_edges);
  constexpr auto kInt = ScalarType::Int;
  check(graph.ptr, "ptr", ScalarType::Long, {num_rows + 1}, device);
  check(graph.other, "col or row", kInt, {num_edges}, device);
  check(graph.edge, "edge_row or edge_col", kInt, {num_edges}, device);
  check(graph.order, "order", kInt, {num_rows}, device);
  check(graph.chunks, "chunks", kInt, {args.most_hubs + 1}, device);
  args.ptr = pointer<i64>(graph.ptr);
  args.other = pointer<int>(graph.other);
  args.edge = pointer<int>(graph.edge);
  args.order = pointer<int>(graph.order);
  args.chunks = pointer<int>(graph.chunks);
  return args;
}

// Both orders, with what all passes read.
struct Sweeps {
  Args row;
  Args col;

  Sweeps(Tensor& q, Tensor& k, const std::optional<Tensor>& bias,
         const Order& by_target, const Order& by_source) {
    check_floating(q, "q");
    STD_TORCH_CHECK(q.dim() == 3 && k.dim() == 3, "q and k must be [N, H, Y]");
    const int32_t device = q.get_device_index();
    const int64_t heads = q.size(1), channels = q.size(2);
    const int64_t num_edges = by_target.other.numel();
    STD_TORCH_CHECK(heads >= 1 && heads <= 65535,
                    "there must be 1 to 65535 heads (got ", heads, ")");
    STD_TORCH_CHECK(supports_channels(is_bf16(q), channels), channels,
                    " channels: the CUDA kernels take powers of two, 4 to 128 "
                    "in float32 and 8 to 256 in bfloat16");
    STD_TORCH_CHECK(q.size(0) <= INT_MAX && k.size(0) <= INT_MAX,
                    "up to 2^31 - 1 nodes are possible");
    check(q, "q", q.scalar_type(), {q.size(0), heads, channels}, device);
    check(k, "k", q.scalar_type(), {k.size(0), heads, channels}, device);
    if (bias)
      check(*bias, "bias", ScalarType::Float, {num_edges, heads}, device);
    row = args_of(by_target, q.size(0), num_edges, q, device);
    col = args_of(by_source, k.size(0), num_edges, q, device);
    for (Args* args : {&row, &col}) {
      args->q = aligned(q);
      args->k = aligned(k);
      args->bias = pointer_or_null(bias);
    }
  }
};

void run(Args args, const Tensor& q, Pass pass, const Stream& stream) {
  const int64_t floats = scratch_floats(args, is_bf16(q), pass);
  Tensor scratch = torch::stable::new_empty(q, {floats}, ScalarType::Float);
  args.scratch = static_cast<float*>(scratch.mutable_data_ptr());
  run_pass(args, is_bf16(q), pass, stream);
}

std::tuple<Tensor, Tensor, Tensor> attention_forward(
    Tensor q, Tensor k, std::optional<Tensor> bias, Tensor rowptr, Tensor col,
    Tensor edge_row, Tensor colptr, Tensor row, Tensor edge_col,
    Tensor dst_order, Tensor dst_chunks, Tensor src_order,
    Tensor src_chunks) {
  Sweeps sweeps(q, k, bias, {rowptr, col, edge_row, dst_order, dst_chunks},
                {colptr, row, edge_col, src_order, src_chunks});
  const DeviceGuard guard(q.get_device_index());
  const Stream stream(q.get_device_index());
  Tensor lse = torch::stable::new_empty(q, {q.size(0), q.size(1)},
                                        ScalarType::Float);
  Tensor u = torch::stable::empty_like(q);
  Tensor v = torch::stable::empty_like(k);
  sweeps.row.lse = sweeps.col.lse =
      static_cast<float*>(lse.mutable_data_ptr());
  sweeps.row.u = u.mutable_data_ptr();
  sweeps.col.v = v.mutable_data_ptr();
  run(sweeps.row, q, kForwardRow, stream);
  run(sweeps.col, q, kForwardCol, stream);
  return {lse, u, v};
}

std::tuple<Tensor, Tensor, Tensor> attention_backward(
    Tensor grad_lse, Tensor grad_u, Tensor grad_v, Tensor q, Tensor k,
    std::optional<Tensor> bias, Tensor lse, Tensor u, Tensor rowptr,
    Tensor col, Tensor edge_row, Tensor colptr, Tensor row, Tensor edge_col,
    Tensor dst_order, Tensor dst_chunks, Tensor src_order,
    Tensor src_chunks) {
  Sweeps sweeps(q, k, bias, {rowptr, col, edge_row, dst_order, dst_chunks},
                {colptr, row, edge_col, src_order, src_chunks});
  const int32_t device = q.get_device_index();
  const int64_t num_dst = q.size(0), heads = q.size(1), channels = q.size(2);
  constexpr auto kFloat = ScalarType::Float;
  const ScalarType type = q.scalar_type();
  check(lse, "lse", kFloat, {num_dst, heads}, device);
  check(grad_lse, "grad_lse", kFloat, {num_dst, heads}, device);
  check(u, "u", type, {num_dst, heads, channels}, device);
  check(grad_u, "grad_u", type, {num_dst, heads, channels}, device);
  check(grad_v, "grad_v", type, {k.size(0), heads, channels}, device);
  const DeviceGuard guard(device);
  const Stream stream(device);
  Tensor pairs = torch::stable::new_empty(q, {num_dst, heads, 2}, kFloat);
  Tensor grad_q = torch::stable::empty_like(q);
  Tensor grad_k = torch::stable::empty_like(k);
  Tensor grad_bias = bias ? torch::stable::empty_like(*bias)
                          : torch::stable::new_empty(q, {0}, kFloat);
  for (Args* args : {&sweeps.row, &sweeps.col}) {
    args->lse_tau = static_cast<float2*>(pairs.mutable_data_ptr());
    args->grad_u = aligned(grad_u);
    args->grad_v = aligned(grad_v);
  }
  sweeps.row.lse = const_cast<float*>(pointer<float>(lse));
  sweeps.row.u = aligned(u);
  sweeps.row.grad_lse = pointer<float>(grad_lse);
  sweeps.row.grad_q = grad_q.mutable_data_ptr();
  sweeps.col.grad_k = grad_k.mutable_data_ptr();
  if (bias)
    sweeps.col.grad_bias = static_cast<float*>(grad_bias.mutable_data_ptr());
  run(sweeps.row, q, kBackwardRow, stream);
  run(sweeps.col, q, kBackwardCol, stream);
  return {grad_q, grad_k, grad_bias};
}

SoftmaxArgs softmax_args(const Tensor& src, const Tensor& ptr,
                         const std::optional<Tensor>& perm) {
  check_floating(src, "src");
  STD_TORCH_CHECK(src.dim() == 2 && src.size(1) <= kWarp * 65535,
                  "src must be [E, F] with up to 2,097,120 features");
  STD_TORCH_CHECK(ptr.dim() == 1 && ptr.numel() >= 1, "ptr must be [N + 1]");
  const int32_t device = src.get_device_index();
  check(src, "src", src.scalar_type(), {src.size(0), src.size(1)}, device);
  check(ptr, "ptr", ScalarType::Long, {ptr.numel()}, device);
  if (perm) check(*perm, "perm", ScalarType::Int, {src.size(0)}, device);
  SoftmaxArgs args{};
  args.src = src.const_data_ptr();
  args.ptr = pointer<i64>(ptr);
  args.perm = perm ? pointer<int>(*perm) : nullptr;
  args.num_groups = ptr.numel() - 1;
  args.features = static_cast<int>(src.size(1));
  return args;
}

Tensor softmax_forward(Tensor src, Tensor ptr, std::optional<Tensor> perm) {
  SoftmaxArgs args = softmax_args(src, ptr, perm);
  const DeviceGuard guard(src.get_device_index());
  Tensor out = torch::stable::empty_like(src);
  args.out = out.mutable_data_ptr();
  run_softmax(args, is_bf16(src), false, Stream(src.get_device_index()));
  return out;
}

Tensor softmax_backward(Tensor grad, Tensor out, Tensor ptr,
                        std::optional<Tensor> perm) {
  SoftmaxArgs args = softmax_args(out, ptr, perm);
  check(grad, "the gradient", out.scalar_type(), {out.size(0), out.size(1)},
        out.get_device_index());
  const DeviceGuard guard(out.get_device_index());
  Tensor grad_src = torch::stable::empty_like(out);
  args.grad = grad.const_data_ptr();
  args.out = grad_src.mutable_data_ptr();
  run_softmax(args, is_bf16(out), true, Stream(out.get_device_index()));
  return grad_src;
}

}  // namespace
}  // namespace teg::cuda

// Whether launches will find torch's stream, which shows without a GPU.
extern "C" __attribute__((visibility("default"))) bool
teg_has_stream_getter() {
  return teg::cuda::stream_getter() != nullptr;
}

// Why these kernels cannot run on a device, or null; for ops/cuda.py. Asking
// for a kernel loads it, which fails if the driver is too old, or if there is
// no code for the architecture.
extern "C" __attribute__((visibility("default"))) const char*
teg_cuda_problem(int device) {
  using namespace teg::cuda;
  if (stream_getter() == nullptr)
    return "libtorch_cuda.so does not tell its current stream";
  int before = 0;
  cudaError_t error = cudaGetDevice(&before);
  if (error == cudaSuccess) error = cudaSetDevice(device);
  if (error == cudaSuccess) {
    cudaFuncAttributes attributes;
    error = cudaFuncGetAttributes(&attributes, ea_fwd_row_f32_l8);
    cudaSetDevice(before);
  }
  if (error == cudaSuccess) return nullptr;
  cudaGetLastError();  // or the next launch of anybody would report it
  return cudaGetErrorString(error);
}

// The toolkit of the kernels, 1000 * major + 10 * minor.
extern "C" __attribute__((visibility("default"))) int teg_cuda_version() {
  return CUDART_VERSION;
}

STABLE_TORCH_LIBRARY_IMPL(torch_energy_graph_native, CUDA, m) {
  m.impl("attention_forward", TORCH_BOX(&teg::cuda::attention_forward));
  m.impl("attention_backward", TORCH_BOX(&teg::cuda::attention_backward));
  m.impl("softmax_forward", TORCH_BOX(&teg::cuda::softmax_forward));
  m.impl("softmax_backward", TORCH_BOX(&teg::cuda::softmax_backward));
}
