// Softmax of entries [E, F] within groups, per feature, and its gradient
// p (g - sum p g).
//
// Names     scatter_softmax_<forward|backward>_<f32|bf16>
// Argument  one `SoftmaxArgs` by value
// Launch    grid (ceil(num_groups / 8), ceil(features / width)), block 256,
//           width = min(32, pow2(features)), pow2 rounding up; none for 0
// A warp takes a group: `width` lanes lie along the features, the entries
// side by side. Groups of more than 512 entries are done by all 8 warps of
// the block, one after the other.
#pragma once

#include "common.cuh"

namespace teg::cuda {

constexpr int kGroupWarps = 8;
constexpr int kLongGroup = 512;

struct SoftmaxArgs {
  const void* src;   // [E, F] forward: logits; backward: the softmax p
  const void* grad;  // [E, F] backward: g
  void* out;         // [E, F]
  const i64* ptr;    // [num_groups + 1]
  const int* perm;   // [E] row of src, or null: the rows are in order
  i64 num_groups;
  int features;
  int width;
};

// Where entry n of the sorted order lies, for one feature.
struct Entry {
  const int* perm;
  int features;
  int feature;

  __device__ __forceinline__ i64 operator()(i64 n) const {
    return (perm ? __ldg(perm + n) : n) * features + feature;
  }
};

template <typename T>
__device__ __forceinline__ float read(const void* base, i64 at) {
  return to_float(static_cast<const T*>(base)[at]);
}

// Of the logits: the largest, and the sum of exp(x - largest).
template <typename T>
struct SoftmaxForward {
  float top = minus_infinity();
  float total = 0.0f;

  __device__ __forceinline__ void add(const SoftmaxArgs& a, i64 at) {
    merge(read<T>(a.src, at), 1.0f);
  }

  __device__ __forceinline__ void merge(float other_top, float other_total) {
    const float new_top = fmaxf(top, other_top);
    const float base = or_zero(new_top);
    total = total * exp_diff(top, base) +
            other_total * exp_diff(other_top, base);
    top = new_top;
  }

  __device__ __forceinline__ void merge(const SoftmaxForward& other) {
    merge(other.top, other.total);
  }

  __device__ __forceinline__ SoftmaxForward across(int distance) const {
    SoftmaxForward other;
    other.top = __shfl_xor_sync(kAllLanes, top, distance);
    other.total = __shfl_xor_sync(kAllLanes, total, distance);
    return other;
  }

  // A group of nothing but -inf has total 0, and gets zeros.
  __device__ __forceinline__ float value(const SoftmaxArgs& a, i64 at) const {
    const float p = exp_diff(read<T>(a.src, at), or_zero(top));
    return total == 0.0f ? 0.0f : p / total;
  }
};

// Of p and g: the sum of p g.
template <typename T>
struct SoftmaxBackward {
  float total = 0.0f;

  __device__ __forceinline__ void add(const SoftmaxArgs& a, i64 at) {
    total = fmaf(read<T>(a.src, at), read<T>(a.grad, at), total);
  }

  __device__ __forceinline__ void merge(const SoftmaxBackward& other) {
    total += other.total;
  }

  __device__ __forceinline__ SoftmaxBackward across(int distance) const {
    SoftmaxBackward other;
    other.total = __shfl_xor_sync(kAllLanes, total, distance);
    return other;
  }

  __device__ __forceinline__ float value(const SoftmaxArgs& a, i64 at) const {
    return read<T>(a.src, at) * (read<T>(a.grad, at) - total);
  }
};

template <typename T, class State>
struct Groups {
  const SoftmaxArgs& a;
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  int warp = static_cast<int>(threadIdx.x) / kWarp;
  int sub = lane / a.width;       // which of the entries side by side
  int abreast = kWarp / a.width;  // how many of them
  Entry entry{a.perm, a.features,
              static_cast<int>(blockIdx.y) * a.width + lane % a.width};
  bool on = entry.feature < a.features;

  __device__ __forceinline__ State sum(i64 from, i64 end, int step) const {
    State state;
    if (on)
      for (i64 n = from; n < end; n += step) state.add(a, entry(n));
    for (int d = a.width; d < kWarp; d *= 2) state.merge(state.across(d));
    return state;
  }

  __device__ __forceinline__ void write(const State& state, i64 from, i64 end,
                                        int step) const {
    if (!on) return;
    for (i64 n = from; n < end; n += step) {
      const i64 at = entry(n);
      static_cast<T*>(a.out)[at] = from_float<T>(state.value(a, at));
    }
  }

  __device__ __forceinline__ void by_warp(i64 begin, i64 end) const {
    write(sum(begin + sub, end, abreast), begin + sub, end, abreast);
  }

  __device__ __forceinline__ void by_block(i64 begin, i64 end,
                                           State* shared) const {
    const i64 from = begin + warp * abreast + sub;
    const int step = kGroupWarps * abreast;
    shared[threadIdx.x] = sum(from, end, step);
    __syncthreads();
    State state;
    for (int w = 0; w < kGroupWarps; ++w)
      state.merge(shared[w * kWarp + lane]);
    __syncthreads();  // before the next long group overwrites
    write(state, from, end, step);
  }

  __device__ __forceinline__ void all(State* shared) const {
    const i64 first = static_cast<i64>(blockIdx.x) * kGroupWarps;
    for (int w = 0; w < kGroupWarps && first + w < a.num_groups; ++w) {
      const i64 begin = __ldg(a.ptr + first + w);
      const i64 end = __ldg(a.ptr + first + w + 1);
      if (end - begin > kLongGroup)
        by_block(begin, end, shared);
      else if (w == warp)
        by_warp(begin, end);
    }
  }
};

#define TEG_SOFTMAX(name, State, T)                                      \
  extern "C" __global__ void __launch_bounds__(kGroupWarps * kWarp)      \
      scatter_softmax_##name(const SoftmaxArgs args) {                   \
    __shared__ float shared[kGroupWarps * kWarp * sizeof(State<T>) /     \
                            sizeof(float)];                              \
    Groups<T, State<T>>{args}.all(reinterpret_cast<State<T>*>(shared));  \
  }

TEG_SOFTMAX(forward_f32, SoftmaxForward, float)
TEG_SOFTMAX(forward_bf16, SoftmaxForward, bf16)
TEG_SOFTMAX(backward_f32, SoftmaxBackward, float)
TEG_SOFTMAX(backward_bf16, SoftmaxBackward, bf16)

}  // namespace teg::cuda
