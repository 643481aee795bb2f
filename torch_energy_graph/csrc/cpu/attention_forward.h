// Energy attention, forward: Eq. (1) and (2) of ops/reference.py.
#pragma once

#include "block.h"
#include "sweep.h"

namespace teg {
namespace TEG_ISA {

// What all passes share: the heads at work, a sweep order, a logit bias.
template <class A, int NV>
struct Pass {
  Heads<NV> heads;
  const Order& rows;
  const A* bias;

  // Asks for eight rows of a packed table that a later block will need.
  TEG_INLINE void fetch(const A* table, int64_t width, int64_t edge) const {
    const int64_t left = rows.ptr[rows.num_rows] - edge;
    const int n = left < kLanes ? static_cast<int>(left) : kLanes;
    const int64_t bytes = width * sizeof(A);
    for (int j = 0; j < n; ++j) {
      const char* row = reinterpret_cast<const char*>(
          table + rows.minor[edge + j] * width);
      __builtin_prefetch(row);
      for (int64_t b = 64; b < bytes; b += 64) {
        __builtin_prefetch(row + b);
      }
    }
  }

  TEG_INLINE void add_bias(int64_t edge, int n, int64_t head, A* to) const {
    if (bias) {
      for (int j = 0; j < n; ++j) {
        to[j] += bias[rows.edge[edge + j] * heads.num_heads + head];
      }
    }
  }
};

// Rows are targets: log-sum-exps and u, with a running softmax.
template <class A, int NV>
struct ForwardRows : Pass<A, NV> {
  using Pass<A, NV>::heads;
  using Pass<A, NV>::rows;
  static constexpr int64_t kMaxSize = kMaxWidth + kMaxHeads * (1 + kLanes);
  const Attention& at;
  const A* k;  // packed
  A* shift;  // packed, the log-sum-exps where they are finite

  // u without its denominator, then the maxima, then the denominators
  TEG_INLINE int64_t size() const {
    return heads.width() + heads.count * (1 + kLanes);
  }
  TEG_INLINE A* tops(A* part) const { return part + heads.width(); }
  TEG_INLINE A* totals(A* part) const { return tops(part) + heads.count; }

  TEG_INLINE void start(A* part) const {
    fill(part, A(0), size());
    fill(tops(part), A(-kInfinity), heads.count);
  }

  TEG_OUTLINE void add(
      int64_t row, int64_t begin, int64_t end, A* part) const {
    alignas(64) A q[kMaxWidth];
    alignas(64) A weight[kBlock];
    heads.read(at.q, row, q);
    for (int64_t e = begin; e < end; e += kBlock) {
      const Block block(rows.minor + e, end - e);
      const Slices<A> keys(k, heads.width(), block);
      for (int64_t h = 0; h < heads.count; ++h) {
        const int64_t offset = h * heads.padded();
        for (int j = 0; j < block.count; j += kLanes) {
          if (h == 0) {
            this->fetch(k, heads.width(), e + j + kBlock);
          }
          Vec<A> s[kLanes] = {};
          multiply<NV>(q + offset, keys.row + j, offset, heads.vectors(), s);
          store(weight + j, sums(s));
        }
        this->add_bias(e, block.count, heads.first + h, weight);
        soften(block, weight, part, h);
        accumulate<NV>(
            weight, keys.row, offset, heads.vectors(), block.padded,
            part + offset);
      }
    }
  }

  // Logits become exp(logit - maximum); older sums follow the maximum.
  TEG_INLINE void soften(
      const Block& block, A* weight, A* part, int64_t h) const {
    const int last = block.padded - kLanes;
    const Vec<A> tail = load(weight + last);
    store(
        weight + last, block.present<A>(last) ? tail : splat(A(-kInfinity)));
    Vec<A> most = load(weight);
    for (int j = kLanes; j < block.count; j += kLanes) {
      most = select_max(most, load(weight + j));
    }
    const A top = largest(most);
    const A& known = tops(part)[h];
    if (top > known) {
      rescale(part, h, top);
    }
    const A finite = known == -kInfinity ? A(0) : known;
    A* total = totals(part) + h * kLanes;
    Vec<A> sum = load(total);
    for (int j = 0; j < block.count; j += kLanes) {
      const Vec<A> p = exp(load(weight + j) - finite);
      store(weight + j, p);
      sum += p;
    }
    store(total, sum);
  }

  TEG_INLINE void rescale(A* part, int64_t h, A top) const {
    A& known = tops(part)[h];
    const A factor = known == -kInfinity ? A(0) : exp_one(known - top);
    scale_by(totals(part) + h * kLanes, factor, kLanes);
    scale_by(part + h * heads.padded(), factor, heads.padded());
    known = top;
  }

  TEG_INLINE void merge(A* part, A* other) const {
    for (int64_t h = 0; h < heads.count; ++h) {
      const A ours = tops(part)[h], theirs = tops(other)[h];
      if (theirs > ours) {
        rescale(part, h, theirs);
      } else if (ours > theirs) {
        rescale(other, h, ours);
      }
    }
    add_to(part, other, heads.width());
    add_to(totals(part), totals(other), heads.count * kLanes);
  }

  TEG_INLINE void finish(int64_t row, A* part) const {
    A* lse = static_cast<A*>(at.lse) + row * heads.num_heads + heads.first;
    for (int64_t h = 0; h < heads.count; ++h) {
      const A total = sum(load(totals(part) + h * kLanes));
      lse[h] = tops(part)[h] + log(total);
      // all logits of such a row are -inf, too: exp(-inf - 0) = 0
      shift[row * heads.count + h] = lse[h] == -kInfinity ? A(0) : lse[h];
      const A scale = total == 0 ? A(0) : 1 / total;
      scale_by(part + h * heads.padded(), scale, heads.padded());
    }
    heads.write(at.u, row, part);
  }

  static TEG_INLINE float log(float x) { return __builtin_logf(x); }
  static TEG_INLINE double log(double x) { return __builtin_log(x); }
};

// Rows are sources: v, with the weights computed again from L.
template <class A, int NV>
struct ForwardColumns : Pass<A, NV> {
  using Pass<A, NV>::heads;
  using Pass<A, NV>::rows;
  static constexpr int64_t kMaxSize = kMaxWidth;
  const Attention& at;
  const A *q, *shift;  // packed

  TEG_INLINE int64_t size() const { return heads.width(); }
  TEG_INLINE void start(A* part) const { fill(part, A(0), size()); }
  TEG_INLINE void merge(A* part, const A* other) const {
    add_to(part, other, size());
  }
  TEG_INLINE void finish(int64_t row, const A* part) const {
    heads.write(at.v, row, part);
  }

  TEG_OUTLINE void add(
      int64_t row, int64_t begin, int64_t end, A* part) const {
    alignas(64) A k[kMaxWidth];
    alignas(64) A weight[kBlock], lse[kBlock];
    heads.read(at.k, row, k);
    for (int64_t e = begin; e < end; e += kBlock) {
      const Block block(rows.minor + e, end - e);
      const Slices<A> queries(q, heads.width(), block);
      for (int64_t h = 0; h < heads.count; ++h) {
        for (int j = 0; j < block.padded; ++j) {
          lse[j] = shift[block.node[j] * heads.count + h];
        }
        const int64_t offset = h * heads.padded();
        for (int j = 0; j < block.count; j += kLanes) {
          if (h == 0) {
            this->fetch(q, heads.width(), e + j + kBlock);
            this->fetch(shift, heads.count, e + j + kBlock);
          }
          Vec<A> s[kLanes] = {};
          multiply<NV>(
              k + offset, queries.row + j, offset, heads.vectors(), s);
          store(weight + j, sums(s));
        }
        this->add_bias(e, block.count, heads.first + h, weight);
        for (int j = 0; j < block.count; j += kLanes) {
          const Vec<A> p = exp(load(weight + j) - load(lse + j));
          store(weight + j, block.present<A>(j) ? p : splat(A(0)));
        }
        accumulate<NV>(
            weight, queries.row, offset, heads.vectors(), block.padded,
            part + offset);
      }
    }
  }
};

}  // namespace TEG_ISA
}  // namespace teg
