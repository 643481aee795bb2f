// The kernels as the bindings see them: raw pointers, no torch.
#pragma once

#include <cstdint>

namespace teg {

// Runs `task(context, i)` for i = 0 ... count - 1 in any order, on threads.
using Task = void (*)(void* context, int64_t i);
using Run = void (*)(int64_t count, Task task, void* context);

enum class Storage { kFloat, kDouble, kBFloat16 };

// One sweep order of a graph: rows with the other end of their edges, and
// the plan of work of ops/plan.py.
struct Order {
  int64_t num_rows;
  const int64_t* ptr;  // [num_rows + 1]
  const int32_t* minor;  // [E]
  const int32_t* edge;  // [E], the caller's edge numbers
  const int32_t* order;  // [num_rows]
  const int32_t* chunks;  // [max_hubs + 1]
  int64_t max_hubs;
};

// Energy attention with the formulas of ops/reference.py. Node tensors are
// [N, heads, channels], contiguous, with up to kMaxChannels channels. The type
// of lse, bias and all sums is float, or double for double storage.
constexpr int64_t kMaxChannels = 1024;

struct Attention {
  Storage storage;
  int64_t heads, channels;
  Order targets, sources;
  const void *q, *k;
  const void* bias;  // [E, heads] in the caller's order, or null
  void *lse, *u, *v;
};

struct AttentionBackward {
  Attention forward;
  const void *grad_lse, *grad_u, *grad_v;
  void *grad_q, *grad_k;
  void* grad_bias;  // [E, heads], or null
};

// Softmax of every column within groups of entries: entries
// ptr[g] ... ptr[g + 1] - 1 of group g are rows perm[...] of src.
struct Softmax {
  Storage storage;
  int64_t num_groups, columns;
  const int64_t* ptr;  // [num_groups + 1]
  const int32_t* perm;  // [E], or null: the identity
  const void *src, *grad, *out;  // src or (grad, out), [E, columns]
  void* result;  // [E, columns]
};

// The same for entries in any order: entry e belongs to group index[e]. Each
// of `parts` tasks reads all entries and serves a range of groups, so every
// group is summed in the order of its entries, whatever `parts` is.
struct SoftmaxByIndex {
  Storage storage;
  int64_t num_entries, num_groups, columns, parts;
  const int64_t* index;  // [E]
  const void *src, *grad, *out;  // src or (grad, out), [E, columns]
  void* result;  // [E, columns]
};

struct Kernels {
  void (*attention)(const Attention&, Run);
  void (*attention_backward)(const AttentionBackward&, Run);
  void (*softmax)(const Softmax&, Run);
  void (*softmax_backward)(const Softmax&, Run);
  void (*softmax_by_index)(const SoftmaxByIndex&, Run);
  void (*softmax_by_index_backward)(const SoftmaxByIndex&, Run);
};

// What the build has compiled: on x86, all three.
extern const Kernels kernels_generic;
extern const Kernels kernels_v3;  // AVX2, FMA
extern const Kernels kernels_v4;  // AVX-512

}  // namespace teg
