// Forward passes, Eq. (1) and (2) of ops/reference.py.
#pragma once

#include "attention_sweep.cuh"

namespace teg::cuda {

template <int N>
__device__ __forceinline__ float dot(const float* x, const float* y) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < N; ++i) sum = fmaf(x[i], y[i], sum);
  return sum;
}

// Rows are targets i: L_i and u_i = sum_j p_ij k_j with an online softmax,
// whose sums are rescaled once per group of edges.
template <typename T>
struct ForwardRow {
  using V = Vec<T>;
  using State = SoftmaxSums<V::kSize>;
  static constexpr int kUnroll = 4;
  static constexpr int kBlocks = kSweepBlocks;
  float q[V::kSize];

  __device__ __forceinline__ ForwardRow(const Args& a, const Lanes& lanes,
                                        int row) {
    V::unpack(lanes.load(a.q, row), q);
  }

  __device__ __forceinline__ void visit(const Args& a, const Lanes& lanes,
                                        const Edges<kUnroll>& edges,
                                        State& state) const {
    uint4 raw[kUnroll];
    float s[kUnroll], k[V::kSize];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i)
      raw[i] = lanes.load(a.k, edges.other[i]);
    float top = state.top();
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      V::unpack(raw[i], k);
      s[i] = sum_lanes(dot<V::kSize>(q, k), lanes.lph);
      s[i] = edges.valid[i] ? s[i] + edges.bias(a, lanes, i)
                            : minus_infinity();
      top = fmaxf(top, s[i]);
    }
    const float base = state.raise(top);
    Sums<V::kSize + 1> group;
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const float p = exp_diff(s[i], base);
      V::unpack(raw[i], k);
#pragma unroll
      for (int c = 0; c < V::kSize; ++c)
        group.x[c] = fmaf(p, k[c], group.x[c]);
      group.x[V::kSize] += p;
    }
    state.add(group);
  }

  // A row without weight has total 0 and top -inf: L = -inf, u = 0.
  __device__ __forceinline__ void finish(const Args& a, const Lanes& lanes,
                                         int row, State state) const {
    const float total = state.total();
    const float scale = total == 0.0f ? 0.0f : 1.0f / total;
#pragma unroll
    for (int c = 0; c < V::kSize; ++c) state.x[c] *= scale;
    lanes.store(a.u, row, V::pack(state.x));
    if (lanes.first && lanes.sub == 0)
      a.lse[lanes.scalar(a, row)] = or_zero(state.top()) + logf(total);
  }
};

// Rows are sources j: v_j = sum_i p_ij q_i.
template <typename T>
struct ForwardCol {
  using V = Vec<T>;
  using State = Sums<V::kSize>;
  static constexpr int kUnroll = 4;
  static constexpr int kBlocks = kSweepBlocks;
  float k[V::kSize];

  __device__ __forceinline__ ForwardCol(const Args& a, const Lanes& lanes,
                                        int row) {
    V::unpack(lanes.load(a.k, row), k);
  }

  __device__ __forceinline__ void visit(const Args& a, const Lanes& lanes,
                                        const Edges<kUnroll>& edges,
                                        State& state) const {
    uint4 raw[kUnroll];
    float lse[kUnroll], q[V::kSize];
    State group;
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      raw[i] = lanes.load(a.q, edges.other[i]);
      lse[i] = __ldg(a.lse + lanes.scalar(a, edges.other[i]));
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      V::unpack(raw[i], q);
      const float s = sum_lanes(dot<V::kSize>(q, k), lanes.lph) +
                      edges.bias(a, lanes, i);
      const float p = edges.valid[i] ? exp_diff(s, or_zero(lse[i])) : 0.0f;
#pragma unroll
      for (int c = 0; c < V::kSize; ++c)
        group.x[c] = fmaf(p, q[c], group.x[c]);
    }
    state.add(group);
  }

  __device__ __forceinline__ void finish(const Args& a, const Lanes& lanes,
                                         int row, const State& state) const {
    lanes.store(a.v, row, V::pack(state.x));
  }
};

}  // namespace teg::cuda
