// A block of edges of one row: the rows of a packed table at their other
// ends, dot products with them, and weighted sums of them.
#pragma once

#include "nodes.h"

namespace teg {
namespace TEG_ISA {

constexpr int kBlock = 32;  // edges; their slices stay in the L1 cache

// The other ends of up to `kBlock` edges. Behind the last one it repeats up
// to a multiple of eight, so that no loop needs a remainder.
struct Block {
  int count, padded;
  uint32_t node[kBlock];

  TEG_INLINE Block(const int32_t* minor, int64_t left) {
    count = left < kBlock ? static_cast<int>(left) : kBlock;
    padded = (count + kLanes - 1) / kLanes * kLanes;
    for (int j = 0; j < count; ++j) {
      node[j] = static_cast<uint32_t>(minor[j]);
    }
    for (int j = count; j < padded; ++j) {
      node[j] = node[count - 1];
    }
  }

  // Lanes of group j of eight edges that are edges of the row.
  template <class A>
  TEG_INLINE typename Lanes<A>::I present(int j) const {
    const typename Lanes<A>::I lane = {0, 1, 2, 3, 4, 5, 6, 7};
    return lane < count - j;
  }
};

// The rows of a packed table that belong to a block.
template <class A>
struct Slices {
  const A* row[kBlock];

  TEG_INLINE Slices(const A* table, uint32_t width, const Block& block) {
    for (int j = 0; j < block.padded; ++j) {
      row[j] = table + uint64_t{block.node[j]} * width;
    }
  }
};

// Adds the products of eight rows with x, lane by lane.
template <int NV, class A>
TEG_INLINE void multiply(
    const A* x, const A* const* rows, int64_t offset, int nv, Vec<A>* sum) {
  for (int v = 0; v < (NV ? NV : nv); ++v) {
    const Vec<A> part = load(x + v * kLanes);
#pragma GCC unroll 8
    for (int j = 0; j < kLanes; ++j) {
      sum[j] += part * load(rows[j] + offset + v * kLanes);
    }
  }
}

// out += sum_j weight[j] * row_j over `padded` rows.
template <int NV, class A>
TEG_INLINE void accumulate(
    const A* weight, const A* const* rows, int64_t offset, int nv, int padded,
    A* out) {
  // as many sums as hide the latency of a multiplication
  constexpr int kSums = sizeof(A) == 4 ? 8 : 4;
  constexpr int kWide = NV == 0 ? 1 : NV < kSums ? NV : kSums;
  constexpr int kEdges = kSums / kWide;
  for (int v = 0; v < (NV ? NV : nv); v += kWide) {
    const int64_t at = offset + v * kLanes;
    Vec<A> sum[kEdges][kWide] = {};
    for (int j = 0; j < padded; j += kEdges) {
#pragma GCC unroll 8
      for (int e = 0; e < kEdges; ++e) {
        const Vec<A> w = splat(weight[j + e]);
#pragma GCC unroll 8
        for (int i = 0; i < kWide; ++i) {
          sum[e][i] += w * load(rows[j + e] + at + i * kLanes);
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kWide; ++i) {
      A* to = out + (v + i) * kLanes;
      Vec<A> total = load(to);
#pragma GCC unroll 8
      for (int e = 0; e < kEdges; ++e) {
        total += sum[e][i];
      }
      store(to, total);
    }
  }
}

template <class A>
TEG_INLINE void add_to(A* to, const A* from, int64_t count) {
  for (int64_t c = 0; c < count; c += kLanes) {
    store(to + c, load(to + c) + load(from + c));
  }
}

template <class A>
TEG_INLINE void scale_by(A* to, A factor, int64_t count) {
  for (int64_t c = 0; c < count; c += kLanes) {
    store(to + c, load(to + c) * factor);
  }
}

template <class A>
TEG_INLINE void fill(A* to, A value, int64_t count) {
  for (int64_t c = 0; c < count; ++c) {
    to[c] = value;
  }
}

}  // namespace TEG_ISA
}  // namespace teg
