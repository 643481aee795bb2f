// Softmax within groups of entries, column by column.
#pragma once

#include "sweep.h"

namespace teg {
namespace TEG_ISA {

// Eight entries of one column, `filler` behind the end of the group.
template <class S, class A>
struct Column {
  const Softmax& at;
  int64_t column, end;

  TEG_INLINE int64_t place(int64_t entry) const {
    return (at.perm ? at.perm[entry] : entry) * at.columns + column;
  }

  TEG_INLINE Vec<A> read(const void* table, int64_t entry, A filler) const {
    const S* from = static_cast<const S*>(table);
    alignas(64) A value[kLanes];
    for (int j = 0; j < kLanes; ++j) {
      value[j] = entry + j < end ? get(from + place(entry + j)) : filler;
    }
    return load(value);
  }

  TEG_INLINE void write(int64_t entry, Vec<A> x) const {
    S* to = static_cast<S*>(at.result);
    for (int j = 0; j < kLanes && entry + j < end; ++j) {
      put(to + place(entry + j), x[j]);
    }
  }
};

template <class S, class A>
TEG_INLINE void soften_group(const Softmax& at, int64_t group) {
  const int64_t begin = at.ptr[group], end = at.ptr[group + 1];
  for (int64_t c = 0; c < at.columns; ++c) {
    const Column<S, A> column{at, c, end};
    Vec<A> most = splat(A(-kInfinity)), total = {};
    for (int64_t e = begin; e < end; e += kLanes) {
      most = select_max(most, column.read(at.src, e, A(-kInfinity)));
    }
    const A top = largest(most), shift = top == -kInfinity ? A(0) : top;
    for (int64_t e = begin; e < end; e += kLanes) {
      total += exp(column.read(at.src, e, A(-kInfinity)) - shift);
    }
    const A all = sum(total), scale = all == 0 ? A(0) : 1 / all;
    for (int64_t e = begin; e < end; e += kLanes) {
      column.write(
          e, exp(column.read(at.src, e, A(-kInfinity)) - shift) * scale);
    }
  }
}

// The gradient p (g - sum p g) of the scores.
template <class S, class A>
TEG_INLINE void soften_group_backward(const Softmax& at, int64_t group) {
  const int64_t begin = at.ptr[group], end = at.ptr[group + 1];
  for (int64_t c = 0; c < at.columns; ++c) {
    const Column<S, A> column{at, c, end};
    Vec<A> dot = {};
    for (int64_t e = begin; e < end; e += kLanes) {
      dot += column.read(at.out, e, A(0)) * column.read(at.grad, e, A(0));
    }
    const A mean = sum(dot);
    for (int64_t e = begin; e < end; e += kLanes) {
      const Vec<A> p = column.read(at.out, e, A(0));
      column.write(e, p * (column.read(at.grad, e, A(0)) - mean));
    }
  }
}

template <class S, class A, bool kBackward>
void softmax_groups(const Softmax& at, Run run) {
  struct Job {
    const Softmax& at;
    Order groups;
    int64_t num_spans;

    static void span(void* context, int64_t i) {
      const Job& job = *static_cast<Job*>(context);
      const Span rows = span_of(job.groups, i, job.num_spans);
      for (int64_t group = rows.first; group < rows.last; ++group) {
        if (kBackward) {
          soften_group_backward<S, A>(job.at, group);
        } else {
          soften_group<S, A>(job.at, group);
        }
      }
    }
  };
  Order groups{at.num_groups, at.ptr, nullptr, nullptr, nullptr, nullptr, 0};
  Job job{at, groups, spans(groups)};
  run(job.num_spans, &Job::span, &job);
}

}  // namespace TEG_ISA
}  // namespace teg
