// One sweep over the rows of a graph: who does what, and hubs in pieces.
//
// A pass says what happens in a row:
//   pass.size()                          values of a partial result
//   pass.start(part)                     the empty result
//   pass.add(row, begin, end, part)      adds edges of the row
//   pass.merge(part, other)              adds another partial result
//   pass.finish(row, part)               writes the outputs of the row
// A row is always cut in the same way and merged in the same order, so the
// bits of the result do not depend on the number of threads.
#pragma once

#include "kernels.h"
#include "vec.h"

namespace teg {
namespace TEG_ISA {

constexpr int64_t kChunk = 512;  // CHUNK of ops/plan.py
constexpr int64_t kTaskEdges = 16384;

// First row at which `target` units of work (edges and rows) are done.
inline int64_t row_at(const Order& rows, int64_t target) {
  int64_t low = 0, high = rows.num_rows;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (rows.ptr[middle] + middle < target) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

inline int64_t spans(const Order& rows) {
  return (rows.ptr[rows.num_rows] + rows.num_rows) / kTaskEdges + 1;
}

struct Span {
  int64_t first, last;
};

// Number i of `count` spans of consecutive rows with about the same work.
inline Span span_of(const Order& rows, int64_t i, int64_t count) {
  const int64_t work = rows.ptr[rows.num_rows] + rows.num_rows;
  return {row_at(rows, work * i / count), row_at(rows, work * (i + 1) / count)};
}

inline int64_t hub_of(const Order& rows, int64_t piece) {
  int64_t low = 0, high = rows.max_hubs;
  while (high - low > 1) {
    int64_t middle = (low + high) / 2;
    if (rows.chunks[middle] <= piece) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class Pass, class A>
struct Sweep {
  const Pass& pass;
  const Order& rows;
  int64_t num_pieces, num_spans;
  A* pieces;  // [num_pieces, size]

  TEG_INLINE void piece(int64_t i) const {
    int64_t hub = hub_of(rows, i), row = rows.order[hub];
    int64_t begin = rows.ptr[row] + (i - rows.chunks[hub]) * kChunk;
    int64_t end = rows.ptr[row + 1];
    A* part = pieces + i * pass.size();
    pass.start(part);
    pass.add(row, begin, end - begin > kChunk ? begin + kChunk : end, part);
  }

  TEG_INLINE void span(int64_t i) const {
    const Span some = span_of(rows, i, num_spans);
    alignas(64) A part[Pass::kMaxSize];
    for (int64_t row = some.first; row < some.last; ++row) {
      int64_t begin = rows.ptr[row], end = rows.ptr[row + 1];
      if (end - begin <= kChunk) {
        pass.start(part);
        pass.add(row, begin, end, part);
        pass.finish(row, part);
      }
    }
  }

  TEG_INLINE void hub(int64_t i) const {
    alignas(64) A part[Pass::kMaxSize];
    pass.start(part);
    for (int64_t c = rows.chunks[i]; c < rows.chunks[i + 1]; ++c) {
      pass.merge(part, pieces + c * pass.size());
    }
    pass.finish(rows.order[i], part);
  }

  static void first(void* context, int64_t i) {
    const Sweep& self = *static_cast<Sweep*>(context);
    if (i < self.num_pieces) {
      self.piece(i);
    } else {
      self.span(i - self.num_pieces);
    }
  }

  static void second(void* context, int64_t i) {
    static_cast<Sweep*>(context)->hub(i);
  }
};

template <class A, class Pass>
void sweep(const Pass& pass, const Order& rows, Run run) {
  int64_t num_pieces = rows.chunks[rows.max_hubs], num_hubs = 0;
  while (num_hubs < rows.max_hubs &&
         rows.chunks[num_hubs + 1] > rows.chunks[num_hubs]) {
    ++num_hubs;
  }
  int64_t num_spans = spans(rows);
  A* pieces = num_pieces ? new A[num_pieces * pass.size()] : nullptr;
  Sweep<Pass, A> job{pass, rows, num_pieces, num_spans, pieces};
  run(num_pieces + num_spans, &Sweep<Pass, A>::first, &job);
  run(num_hubs, &Sweep<Pass, A>::second, &job);
  delete[] pieces;
}

}  // namespace TEG_ISA
}  // namespace teg
