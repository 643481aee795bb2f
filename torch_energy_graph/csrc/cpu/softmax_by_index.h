// Softmax within groups whose entries stand in any order: a few passes over
// the entries, with tables of one number per group, which fit the caches.
#pragma once

#include "block.h"
#include "softmax.h"

namespace teg {
namespace TEG_ISA {

// Entries of the groups first ... last - 1, some at a time.
template <class Visit>
TEG_INLINE void visit_entries(
    const SoftmaxByIndex& at, Span groups, const Visit& visit) {
  constexpr int kSome = 32;
  int64_t entry[kSome];
  int n = 0;
  for (int64_t e = 0; e < at.num_entries; ++e) {
    entry[n] = e;
    n += at.index[e] >= groups.first && at.index[e] < groups.last;
    if (n == kSome) {
      visit(entry, n);
      n = 0;
    }
  }
  if (n > 0) {
    visit(entry, n);
  }
}

template <class S, class A>
struct IndexedSoftmax {
  const SoftmaxByIndex& at;
  A* tops;  // [groups, columns]
  double* totals;  // [groups, columns]

  TEG_INLINE int64_t slot(int64_t entry, int64_t c) const {
    return at.index[entry] * at.columns + c;
  }
  TEG_INLINE A value(const void* table, int64_t entry, int64_t c) const {
    return get(static_cast<const S*>(table) + entry * at.columns + c);
  }
  TEG_INLINE void set(int64_t entry, int64_t c, A x) const {
    put(static_cast<S*>(at.result) + entry * at.columns + c, x);
  }

  // exp(score - maximum) of up to 32 entries of a column
  TEG_INLINE void exps(
      const int64_t* entry, int n, int64_t c, A* to) const {
    for (int j = 0; j < n; ++j) {
      to[j] = value(at.src, entry[j], c) - tops[slot(entry[j], c)];
    }
    for (int j = n; j % kLanes; ++j) {
      to[j] = 0;
    }
    for (int j = 0; j < n; j += kLanes) {
      store(to + j, exp(load(to + j)));
    }
  }

  void forward(Span groups) const {
    fill(tops + groups.first * at.columns, A(-kInfinity), width(groups));
    fill(totals + groups.first * at.columns, 0.0, width(groups));
    visit_entries(at, groups, [&](const int64_t* entry, int n) {
      for (int j = 0; j < n; ++j) {
        for (int64_t c = 0; c < at.columns; ++c) {
          const A s = value(at.src, entry[j], c);
          A& top = tops[slot(entry[j], c)];
          top = s > top ? s : top;
        }
      }
    });
    for (int64_t i = 0; i < width(groups); ++i) {
      A& top = tops[groups.first * at.columns + i];
      top = top == -kInfinity ? A(0) : top;
    }
    alignas(64) A p[32];
    visit_entries(at, groups, [&](const int64_t* entry, int n) {
      for (int64_t c = 0; c < at.columns; ++c) {
        exps(entry, n, c, p);
        for (int j = 0; j < n; ++j) {
          totals[slot(entry[j], c)] += p[j];
        }
      }
    });
    for (int64_t i = 0; i < width(groups); ++i) {
      double& total = totals[groups.first * at.columns + i];
      total = total == 0 ? 0 : 1 / total;
    }
    visit_entries(at, groups, [&](const int64_t* entry, int n) {
      for (int64_t c = 0; c < at.columns; ++c) {
        exps(entry, n, c, p);
        for (int j = 0; j < n; ++j) {
          set(entry[j], c, p[j] * A(totals[slot(entry[j], c)]));
        }
      }
    });
  }

  void backward(Span groups) const {
    fill(totals + groups.first * at.columns, 0.0, width(groups));
    visit_entries(at, groups, [&](const int64_t* entry, int n) {
      for (int j = 0; j < n; ++j) {
        for (int64_t c = 0; c < at.columns; ++c) {
          totals[slot(entry[j], c)] +=
              value(at.out, entry[j], c) * value(at.grad, entry[j], c);
        }
      }
    });
    visit_entries(at, groups, [&](const int64_t* entry, int n) {
      for (int j = 0; j < n; ++j) {
        for (int64_t c = 0; c < at.columns; ++c) {
          const A mean = A(totals[slot(entry[j], c)]);
          const A p = value(at.out, entry[j], c);
          set(entry[j], c, p * (value(at.grad, entry[j], c) - mean));
        }
      }
    });
  }

  TEG_INLINE int64_t width(Span groups) const {
    return (groups.last - groups.first) * at.columns;
  }
};

template <class S, class A, bool kBackward>
void softmax_indexed(const SoftmaxByIndex& at, Run run) {
  const Buffer<A> tops(kBackward ? 0 : at.num_groups * at.columns);
  const Buffer<double> totals(at.num_groups * at.columns);
  IndexedSoftmax<S, A> job{at, tops.data(), totals.data()};
  const auto part = [](void* context, int64_t i) {
    const auto& self = *static_cast<IndexedSoftmax<S, A>*>(context);
    const int64_t all = self.at.num_groups, parts = self.at.parts;
    const Span groups{all * i / parts, all * (i + 1) / parts};
    if (kBackward) {
      self.backward(groups);
    } else {
      self.forward(groups);
    }
  };
  run(at.parts, part, &job);
}

}  // namespace TEG_ISA
}  // namespace teg
