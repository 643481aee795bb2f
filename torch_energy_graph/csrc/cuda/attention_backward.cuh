// Backward passes, Eq. (3) to (5) of ops/reference.py, with recomputed p.
//
// tau is known only at the end of a row, but enters grad_q linearly: with
// sum_j p_ij k_j = u_i,
//   grad_q_i = sum_j p_ij t_ij k_j - tau_i u_i + G_i,  G_i = sum_j p_ij gv_j,
// so that one sweep per direction is enough. tau_i u_i nearly cancels the
// first sum, and a u rounded to bf16 is not enough for that: it is summed
// again then.
#pragma once

#include "attention_forward.cuh"

namespace teg::cuda {

// Rows are targets i: grad_q, and the pair (L, tau) for the column pass.
template <typename T>
struct BackwardRow {
  using V = Vec<T>;
  static constexpr int kSums = V::kExact ? 2 : 3;
  using State = Sums<kSums * V::kSize>;  // of p t k, p gv, and perhaps p k
  static constexpr int kUnroll = 2;
  static constexpr int kBlocks = V::kExact ? kSweepBlocks : kSweepBlocks - 1;
  float q[V::kSize], grad_u[V::kSize];
  float lse;

  __device__ __forceinline__ BackwardRow(const Args& a, const Lanes& lanes,
                                         int row) {
    V::unpack(lanes.load(a.q, row), q);
    V::unpack(lanes.load(a.grad_u, row), grad_u);
    lse = __ldg(a.lse + lanes.scalar(a, row));
  }

  __device__ __forceinline__ void visit(const Args& a, const Lanes& lanes,
                                        const Edges<kUnroll>& edges,
                                        State& state) const {
    uint4 raw_k[kUnroll], raw_grad[kUnroll];
    float k[V::kSize], grad_v[V::kSize];
    State group;
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      raw_k[i] = lanes.load(a.k, edges.other[i]);
      raw_grad[i] = lanes.load(a.grad_v, edges.other[i]);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      V::unpack(raw_k[i], k);
      V::unpack(raw_grad[i], grad_v);
      const float s = sum_lanes(dot<V::kSize>(q, k), lanes.lph) +
                      edges.bias(a, lanes, i);
      const float t = sum_lanes(
          dot<V::kSize>(grad_u, k) + dot<V::kSize>(grad_v, q), lanes.lph);
      const float p = edges.valid[i] ? exp_diff(s, or_zero(lse)) : 0.0f;
#pragma unroll
      for (int c = 0; c < V::kSize; ++c) {
        float& pulled = group.x[V::kSize + c];
        group.x[c] = fmaf(p * t, k[c], group.x[c]);
        pulled = fmaf(p, grad_v[c], pulled);
        if constexpr (!V::kExact) {
          float& u = group.x[2 * V::kSize + c];
          u = fmaf(p, k[c], u);
        }
      }
    }
    state.add(group);
  }

  __device__ __forceinline__ void finish(const Args& a, const Lanes& lanes,
                                         int row, const State& state) const {
    const float* pulled = state.x + V::kSize;
    float u[V::kSize], grad[V::kSize];
    if constexpr (V::kExact) {
      V::unpack(lanes.load(a.u, row), u);
    } else {
#pragma unroll
      for (int c = 0; c < V::kSize; ++c) u[c] = state.x[2 * V::kSize + c];
    }
    const i64 place = lanes.scalar(a, row);
    const float tau =
        sum_lanes(dot<V::kSize>(grad_u, u) + dot<V::kSize>(q, pulled),
                  lanes.lph) -
        __ldg(a.grad_lse + place);
#pragma unroll
    for (int c = 0; c < V::kSize; ++c)
      grad[c] = state.x[c] - tau * u[c] + pulled[c];
    lanes.store(a.grad_q, row, V::pack(grad));
    if (lanes.first && lanes.sub == 0) a.lse_tau[place] = {lse, tau};
  }
};

// Rows are sources j: grad_k_j = sum_i p_ij ((t_ij - tau_i) q_i + gu_i), and
// p (t - tau) as the gradient of the bias.
template <typename T>
struct BackwardCol {
  using V = Vec<T>;
  using State = Sums<V::kSize>;
  static constexpr int kUnroll = 2;
  static constexpr int kBlocks = kSweepBlocks;
  float k[V::kSize], grad_v[V::kSize];

  __device__ __forceinline__ BackwardCol(const Args& a, const Lanes& lanes,
                                         int row) {
    V::unpack(lanes.load(a.k, row), k);
    V::unpack(lanes.load(a.grad_v, row), grad_v);
  }

  __device__ __forceinline__ void visit(const Args& a, const Lanes& lanes,
                                        const Edges<kUnroll>& edges,
                                        State& state) const {
    uint4 raw_q[kUnroll], raw_grad[kUnroll];
    float2 saved[kUnroll];
    float q[V::kSize], grad_u[V::kSize];
    State group;
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      raw_q[i] = lanes.load(a.q, edges.other[i]);
      raw_grad[i] = lanes.load(a.grad_u, edges.other[i]);
      saved[i] = __ldg(a.lse_tau + lanes.scalar(a, edges.other[i]));
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      V::unpack(raw_q[i], q);
      V::unpack(raw_grad[i], grad_u);
      const float s = sum_lanes(dot<V::kSize>(q, k), lanes.lph) +
                      edges.bias(a, lanes, i);
      const float t = sum_lanes(
          dot<V::kSize>(grad_u, k) + dot<V::kSize>(grad_v, q), lanes.lph);
      const float p = edges.valid[i] ? exp_diff(s, or_zero(saved[i].x)) : 0.0f;
      const float grad_logit = p * (t - saved[i].y);
#pragma unroll
      for (int c = 0; c < V::kSize; ++c) {
        group.x[c] = fmaf(grad_logit, q[c], group.x[c]);
        group.x[c] = fmaf(p, grad_u[c], group.x[c]);
      }
      if (a.grad_bias && edges.valid[i] && lanes.first)
        a.grad_bias[edges.place(a, lanes, i)] = grad_logit;
    }
    state.add(group);
  }

  __device__ __forceinline__ void finish(const Args& a, const Lanes& lanes,
                                         int row, const State& state) const {
    lanes.store(a.grad_k, row, V::pack(state.x));
  }
};

}  // namespace teg::cuda
