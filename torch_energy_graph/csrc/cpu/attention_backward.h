// Energy attention, backward: Eq. (3) to (5) of ops/reference.py.
#pragma once

#include "attention_forward.h"

namespace teg {
namespace TEG_ISA {

// The two products of eight edges: the logits s = x . a, whose gradient
// through the outputs is t = grad_x . a + x . grad_a.
template <int NV, class A>
TEG_INLINE void both_products(
    const A* x, const A* grad_x, const A* const* rows,
    const A* const* grad_rows, int64_t offset, int nv, A* s, A* t) {
  Vec<A> sum[kLanes] = {};
  multiply<NV>(x + offset, rows, offset, nv, sum);
  store(s, sums(sum));
  Vec<A> both[kLanes] = {};
  multiply<NV>(grad_x + offset, rows, offset, nv, both);
  multiply<NV>(x + offset, grad_rows, offset, nv, both);
  store(t, sums(both));
}

// Rows are targets: tau and the gradient of q.
template <class A, int NV>
struct BackwardRows : Pass<A, NV> {
  using Pass<A, NV>::heads;
  using Pass<A, NV>::rows;
  static constexpr int64_t kMaxSize = 3 * kMaxWidth;
  const AttentionBackward& at;
  const A *k, *grad_v;  // packed
  A* pairs;  // packed, finite log-sum-exps and tau

  // sum p t k, then sum p grad_v, then u
  TEG_INLINE int64_t size() const {
    return (keeps_u() ? 2 : 3) * heads.width();
  }
  // A rounded u is not enough: tau u nearly cancels the first sum.
  TEG_INLINE bool keeps_u() const {
    return heads.storage != Storage::kBFloat16;
  }
  TEG_INLINE void start(A* part) const { fill(part, A(0), size()); }
  TEG_INLINE void merge(A* part, const A* other) const {
    add_to(part, other, size());
  }

  TEG_INLINE const A* of(const void* table, int64_t row) const {
    return static_cast<const A*>(table) + row * heads.num_heads + heads.first;
  }
  TEG_INLINE A finite(int64_t row, int64_t h) const {
    const A lse = of(at.forward.lse, row)[h];
    return lse == -kInfinity ? A(0) : lse;
  }

  TEG_OUTLINE void add(
      int64_t row, int64_t begin, int64_t end, A* part) const {
    alignas(64) A q[kMaxWidth], grad_u[kMaxWidth];
    alignas(64) A p[kBlock], w[kBlock];
    heads.read(at.forward.q, row, q);
    heads.read(at.grad_u, row, grad_u);
    for (int64_t e = begin; e < end; e += kBlock) {
      const Block block(rows.minor + e, end - e);
      const Slices<A> keys(k, heads.width(), block);
      const Slices<A> grads(grad_v, heads.width(), block);
      for (int64_t h = 0; h < heads.count; ++h) {
        const int64_t offset = h * heads.padded();
        const int nv = heads.vectors();
        for (int j = 0; j < block.count; j += kLanes) {
          if (h == 0) {
            this->fetch(k, heads.width(), e + j + kBlock);
            this->fetch(grad_v, heads.width(), e + j + kBlock);
          }
          both_products<NV>(
              q, grad_u, keys.row + j, grads.row + j, offset, nv, p + j,
              w + j);
        }
        this->add_bias(e, block.count, heads.first + h, p);
        const A shift = finite(row, h);
        for (int j = 0; j < block.count; j += kLanes) {
          const Vec<A> any = exp(load(p + j) - shift);
          const Vec<A> weight = block.present<A>(j) ? any : splat(A(0));
          store(p + j, weight);
          store(w + j, weight * load(w + j));
        }
        accumulate<NV>(w, keys.row, offset, nv, block.padded, part + offset);
        accumulate<NV>(
            p, grads.row, offset, nv, block.padded,
            part + heads.width() + offset);
        if (!keeps_u()) {
          accumulate<NV>(
              p, keys.row, offset, nv, block.padded,
              part + 2 * heads.width() + offset);
        }
      }
    }
  }

  TEG_INLINE void finish(int64_t row, A* part) const {
    alignas(64) A q[kMaxWidth], saved[kMaxWidth], grad_u[kMaxWidth];
    heads.read(at.forward.q, row, q);
    heads.read(at.grad_u, row, grad_u);
    const A* u = part + 2 * heads.width();
    if (keeps_u()) {
      heads.read(at.forward.u, row, saved);
      u = saved;
    }
    const A* pulled = part + heads.width();  // sum p grad_v
    A* pair = pairs + 2 * row * heads.count;
    for (int64_t h = 0; h < heads.count; ++h) {
      const int64_t first = h * heads.padded();
      const int64_t last = first + heads.padded();
      Vec<A> dot = {};
      for (int64_t c = first; c < last; c += kLanes) {
        dot += load(grad_u + c) * load(u + c) + load(q + c) * load(pulled + c);
      }
      const A tau = sum(dot) - of(at.grad_lse, row)[h];
      for (int64_t c = first; c < last; c += kLanes) {
        store(
            part + c, load(part + c) - load(u + c) * tau + load(pulled + c));
      }
      pair[2 * h] = finite(row, h);
      pair[2 * h + 1] = tau;
    }
    heads.write(at.grad_q, row, part);
  }
};

// Rows are sources: the gradients of k and of the bias.
template <class A, int NV>
struct BackwardColumns : Pass<A, NV> {
  using Pass<A, NV>::heads;
  using Pass<A, NV>::rows;
  static constexpr int64_t kMaxSize = kMaxWidth;
  const AttentionBackward& at;
  const A *q, *grad_u, *pairs;  // packed

  TEG_INLINE int64_t size() const { return heads.width(); }
  TEG_INLINE void start(A* part) const { fill(part, A(0), size()); }
  TEG_INLINE void merge(A* part, const A* other) const {
    add_to(part, other, size());
  }
  TEG_INLINE void finish(int64_t row, const A* part) const {
    heads.write(at.grad_k, row, part);
  }

  TEG_OUTLINE void add(
      int64_t row, int64_t begin, int64_t end, A* part) const {
    alignas(64) A k[kMaxWidth], grad_v[kMaxWidth];
    alignas(64) A p[kBlock], w[kBlock], lse[kBlock], tau[kBlock];
    heads.read(at.forward.k, row, k);
    heads.read(at.grad_v, row, grad_v);
    for (int64_t e = begin; e < end; e += kBlock) {
      const Block block(rows.minor + e, end - e);
      const Slices<A> queries(q, heads.width(), block);
      const Slices<A> grads(grad_u, heads.width(), block);
      for (int64_t h = 0; h < heads.count; ++h) {
        for (int j = 0; j < block.padded; ++j) {
          const A* pair = pairs + 2 * (block.node[j] * heads.count + h);
          lse[j] = pair[0];
          tau[j] = pair[1];
        }
        const int64_t offset = h * heads.padded();
        const int nv = heads.vectors();
        for (int j = 0; j < block.count; j += kLanes) {
          if (h == 0) {
            this->fetch(q, heads.width(), e + j + kBlock);
            this->fetch(pairs, 2 * heads.count, e + j + kBlock);
            this->fetch(grad_u, heads.width(), e + j + kBlock);
          }
          both_products<NV>(
              k, grad_v, queries.row + j, grads.row + j, offset, nv, p + j,
              w + j);
        }
        this->add_bias(e, block.count, heads.first + h, p);
        for (int j = 0; j < block.count; j += kLanes) {
          const Vec<A> any = exp(load(p + j) - load(lse + j));
          const Vec<A> weight = block.present<A>(j) ? any : splat(A(0));
          store(p + j, weight);
          store(w + j, weight * (load(w + j) - load(tau + j)));
        }
        keep(e, block.count, heads.first + h, w);
        accumulate<NV>(
            w, queries.row, offset, nv, block.padded, part + offset);
        accumulate<NV>(p, grads.row, offset, nv, block.padded, part + offset);
      }
    }
  }

  // The gradient of a logit is that of its bias.
  TEG_INLINE void keep(int64_t edge, int n, int64_t head, const A* w) const {
    if (at.grad_bias) {
      A* grad_bias = static_cast<A*>(at.grad_bias) + head;
      for (int j = 0; j < n; ++j) {
        grad_bias[rows.edge[edge + j] * heads.num_heads] = w[j];
      }
    }
  }
};

}  // namespace TEG_ISA
}  // namespace teg
