// All kernels for one instruction set. The build compiles this file several
// times, with TEG_ISA = generic, v3 (AVX2) and v4 (AVX-512) and the compiler
// flags that belong to it; the bindings choose at run time.
#include "kernels.h"

#include "attention_backward.h"
#include "attention_forward.h"
#include "softmax.h"
#include "softmax_by_index.h"

#define TEG_NAME_(isa) kernels_##isa
#define TEG_NAME(isa) TEG_NAME_(isa)

namespace teg {
namespace TEG_ISA {

// Working memory of one group of heads: packed rows, and what the sweep over
// the targets leaves for the sweep over the sources.
template <class A>
struct Scratch {
  A *rows, *numbers;
};

template <class A, int NV>
void forward(
    const Attention& at, const Heads<NV>& heads, Scratch<A> scratch, Run run) {
  const A* bias = static_cast<const A*>(at.bias);
  const Order &targets = at.targets, &sources = at.sources;
  auto [rows, shift] = scratch;
  pack(heads, at.k, sources.num_rows, rows, run);
  sweep<A>(
      ForwardRows<A, NV>{{heads, targets, bias}, at, rows, shift}, targets,
      run);
  pack(heads, at.q, targets.num_rows, rows, run);
  sweep<A>(
      ForwardColumns<A, NV>{{heads, sources, bias}, at, rows, shift}, sources,
      run);
}

template <class A, int NV>
void backward(
    const AttentionBackward& at, const Heads<NV>& heads, Scratch<A> scratch,
    Run run) {
  const Attention& of = at.forward;
  const A* bias = static_cast<const A*>(of.bias);
  const Order &targets = of.targets, &sources = of.sources;
  auto [rows, pairs] = scratch;
  A* grads = rows + sources.num_rows * heads.width();
  pack(heads, of.k, sources.num_rows, rows, run);
  pack(heads, at.grad_v, sources.num_rows, grads, run);
  sweep<A>(
      BackwardRows<A, NV>{{heads, targets, bias}, at, rows, grads, pairs},
      targets, run);
  grads = rows + targets.num_rows * heads.width();
  pack(heads, of.q, targets.num_rows, rows, run);
  pack(heads, at.grad_u, targets.num_rows, grads, run);
  sweep<A>(
      BackwardColumns<A, NV>{{heads, sources, bias}, at, rows, grads, pairs},
      sources, run);
}

// A group of heads fills two cache lines of a packed row: fewer would waste
// memory traffic, and more would make tables that leave the caches.
constexpr int64_t kGroupBytes = 128;

inline int64_t heads_at_a_time(int64_t padded, int64_t size) {
  const int64_t count = kGroupBytes / (padded * size);
  return count < 1 ? 1 : count < kMaxHeads ? count : kMaxHeads;
}

template <class A, int NV, class Job>
void by_group(const Attention& at, const Job& job, Run run) {
  constexpr bool kBackward = __is_same(Job, AttentionBackward);
  Heads<NV> heads{at.storage, at.heads, at.channels, 0, 1};
  const int64_t count = heads_at_a_time(heads.padded(), sizeof(A));
  const int64_t larger = at.targets.num_rows > at.sources.num_rows
      ? at.targets.num_rows
      : at.sources.num_rows;
  constexpr int64_t kTables = kBackward ? 2 : 1;
  Buffer<A> rows(kTables * larger * count * heads.padded());
  Buffer<A> numbers(kTables * at.targets.num_rows * count);
  for (; heads.first < at.heads; heads.first += count) {
    const int64_t left = at.heads - heads.first;
    heads.count = left < count ? left : count;
    if constexpr (kBackward) {
      backward<A, NV>(job, heads, {rows.data(), numbers.data()}, run);
    } else {
      forward<A, NV>(job, heads, {rows.data(), numbers.data()}, run);
    }
  }
}

// Common numbers of channels have unrolled code of their own.
template <class A, class Job>
void by_channels(const Attention& at, const Job& job, Run run) {
#ifdef TEG_UNROLL
  switch ((at.channels + kLanes - 1) / kLanes) {
    case 1: return by_group<A, 1>(at, job, run);
    case 2: return by_group<A, 2>(at, job, run);
    case 4: return by_group<A, 4>(at, job, run);
    case 8: return by_group<A, 8>(at, job, run);
    case 16: return by_group<A, 16>(at, job, run);
  }
#endif
  by_group<A, 0>(at, job, run);
}

template <class Job>
void by_storage(const Attention& at, const Job& job, Run run) {
  if (at.storage == Storage::kDouble) {
    by_group<double, 0>(at, job, run);
  } else {
    by_channels<float>(at, job, run);
  }
}

void attention(const Attention& at, Run run) {
  by_storage(at, at, run);
}

void attention_backward(const AttentionBackward& at, Run run) {
  by_storage(at.forward, at, run);
}

template <bool kBackward>
void softmax(const Softmax& at, Run run) {
  switch (at.storage) {
    case Storage::kFloat:
      return softmax_groups<float, float, kBackward>(at, run);
    case Storage::kBFloat16:
      return softmax_groups<BFloat16, float, kBackward>(at, run);
    case Storage::kDouble:
      return softmax_groups<double, double, kBackward>(at, run);
  }
}

template <bool kBackward>
void softmax_by_index(const SoftmaxByIndex& at, Run run) {
  switch (at.storage) {
    case Storage::kFloat:
      return softmax_indexed<float, float, kBackward>(at, run);
    case Storage::kBFloat16:
      return softmax_indexed<BFloat16, float, kBackward>(at, run);
    case Storage::kDouble:
      return softmax_indexed<double, double, kBackward>(at, run);
  }
}

}  // namespace TEG_ISA

const Kernels TEG_NAME(TEG_ISA) = {
    &TEG_ISA::attention, &TEG_ISA::attention_backward,
    &TEG_ISA::softmax<false>, &TEG_ISA::softmax<true>,
    &TEG_ISA::softmax_by_index<false>, &TEG_ISA::softmax_by_index<true>};

}  // namespace teg
