// The skeleton of every pass: which edges a warp takes, and how their partial
// sums come together. A pass (attention_forward.cuh, attention_backward.cuh)
// says what an edge adds and what a finished row writes.
#pragma once

#include "attention_args.cuh"

namespace teg::cuda {

// Where a lane stands: 32 / lpe edges lie side by side in a warp, an edge
// holds the heads of a group, and a head `lph` lanes of one vector each.
struct Lanes {
  int lph;
  int lpe;
  int in_edge;  // 0 .. lpe - 1
  int sub;      // which of the edges side by side
  int abreast;  // how many of them
  int head;
  int row_vectors;  // vectors of a node row
  int vector;       // which of them the lane holds
  bool on;     // there is a head; other lanes repeat head 0, without storing
  bool first;  // the lane that writes what a head has once

  __device__ __forceinline__ Lanes(const Args& a, int lanes_per_head) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    lph = lanes_per_head;
    lpe = a.lpe;
    in_edge = lane & (lpe - 1);
    sub = lane / lpe;
    abreast = kWarp / lpe;
    head = static_cast<int>(blockIdx.y) * (lpe / lph) + in_edge / lph;
    on = head < a.heads;
    if (!on) head = 0;
    first = on && in_edge % lph == 0;
    row_vectors = a.heads * lph;
    vector = head * lph + in_edge % lph;
  }

  __device__ __forceinline__ i64 place(int node) const {
    return static_cast<i64>(node) * row_vectors + vector;
  }

  // The lane's part of a row of a [N, H, Y] tensor.
  __device__ __forceinline__ uint4 load(const void* base, int node) const {
    return __ldg(static_cast<const uint4*>(base) + place(node));
  }

  __device__ __forceinline__ void store(void* base, int node,
                                        uint4 value) const {
    if (on && sub == 0) static_cast<uint4*>(base)[place(node)] = value;
  }

  // Index in a [N, H] tensor.
  __device__ __forceinline__ i64 scalar(const Args& a, int node) const {
    return static_cast<i64>(node) * a.heads + head;
  }
};

// Sums of N values. A pass first sums a group of edges, then adds it: fewer
// additions to a large sum, so less rounding on long rows.
template <int N>
struct Sums {
  static constexpr int kFloats = N;
  float x[N];

  __device__ __forceinline__ Sums() {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = 0.0f;
  }

  __device__ __forceinline__ void add(const Sums& other) {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] += other.x[i];
  }

  __device__ __forceinline__ void merge(const Sums& other) { add(other); }
};

// Sums of N channels and of the weights exp(s - top), relative to the largest
// logit so far.
template <int N>
struct SoftmaxSums {
  static constexpr int kFloats = N + 2;
  float x[N + 2];

  __device__ __forceinline__ SoftmaxSums() {
#pragma unroll
    for (int i = 0; i < N + 1; ++i) x[i] = 0.0f;
    top() = minus_infinity();
  }

  __device__ __forceinline__ float& total() { return x[N]; }
  __device__ __forceinline__ float& top() { return x[N + 1]; }

  // Raises `top`; returns what weights are now relative to.
  __device__ __forceinline__ float raise(float new_top) {
    const float base = or_zero(new_top);
    const float keep = exp_diff(top(), base);
#pragma unroll
    for (int i = 0; i < N + 1; ++i) x[i] *= keep;
    top() = new_top;
    return base;
  }

  __device__ __forceinline__ void add(const Sums<N + 1>& group) {
#pragma unroll
    for (int i = 0; i < N + 1; ++i) x[i] += group.x[i];
  }

  __device__ __forceinline__ void merge(SoftmaxSums other) {
    const float new_top = fmaxf(top(), other.top());
    raise(new_top);
    other.raise(new_top);
#pragma unroll
    for (int i = 0; i < N + 1; ++i) x[i] += other.x[i];
  }
};

template <class State>
__device__ __forceinline__ void merge_abreast(State& state, int lpe) {
  for (int d = lpe; d < kWarp; d *= 2) {
    State other;
#pragma unroll
    for (int i = 0; i < State::kFloats; ++i)
      other.x[i] = __shfl_xor_sync(kAllLanes, state.x[i], d);
    state.merge(other);
  }
}

// Up to 512 edges of one row: a whole row, or a piece of a hub, whose sums go
// to scratch[slot].
struct Work {
  int row = -1;
  int slot = -1;
  int count = 0;
  i64 begin = 0;

  __device__ __forceinline__ Work(const Args& a, i64 item) {
    if (item < a.num_slots)
      take_piece(a, static_cast<int>(item));
    else if (item < static_cast<i64>(a.num_slots) + a.num_rows)
      take_row(a, item - a.num_slots);
  }

  __device__ __forceinline__ void take_piece(const Args& a, int piece) {
    if (piece >= __ldg(a.chunks + a.most_hubs)) return;
    int hub = 0, above = a.most_hubs;  // chunks[hub] <= piece < chunks[above]
    while (above - hub > 1) {
      const int middle = (hub + above) / 2;
      if (__ldg(a.chunks + middle) <= piece)
        hub = middle;
      else
        above = middle;
    }
    row = __ldg(a.order + hub);
    slot = piece;
    begin = __ldg(a.ptr + row) +
            static_cast<i64>(piece - __ldg(a.chunks + hub)) * kChunk;
    const i64 left = __ldg(a.ptr + row + 1) - begin;
    count = static_cast<int>(left < kChunk ? left : kChunk);
  }

  __device__ __forceinline__ void take_row(const Args& a, i64 number) {
    const int node = __ldg(a.order + number);
    begin = __ldg(a.ptr + node);
    const i64 degree = __ldg(a.ptr + node + 1) - begin;
    if (degree > kChunk) return;  // a hub: its pieces are other items
    row = node;
    count = static_cast<int>(degree);
  }
};

// The next edges of a sub-warp. Behind the end the last edge is read again,
// and not `valid`: all lanes take part in every shuffle.
template <int N>
struct Edges {
  i64 begin;
  int at[N];  // counted from `begin`
  int other[N];
  bool valid[N];

  __device__ __forceinline__ Edges(const Args& a, const Work& work, int from,
                                   int stride)
      : begin(work.begin) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      at[i] = from + i * stride;
      valid[i] = at[i] < work.count;
      if (!valid[i]) at[i] = work.count - 1;
      other[i] = __ldg(a.other + begin + at[i]);
    }
  }

  // Index of edge i in a [E, H] tensor of the caller.
  __device__ __forceinline__ i64 place(const Args& a, const Lanes& lanes,
                                       int i) const {
    return lanes.scalar(a, __ldg(a.edge + begin + at[i]));
  }

  __device__ __forceinline__ float bias(const Args& a, const Lanes& lanes,
                                        int i) const {
    return a.bias ? __ldg(a.bias + place(a, lanes, i)) : 0.0f;
  }
};

__device__ __forceinline__ float* scratch_of(const Args& a, const Lanes& lanes,
                                             int slot, int floats) {
  const i64 part = static_cast<i64>(slot) * gridDim.y + blockIdx.y;
  return a.scratch + part * floats * lanes.lpe + lanes.in_edge;
}

template <class Pass, int kLph>
__device__ __forceinline__ void sweep(const Args& a) {
  using State = typename Pass::State;
  const Lanes lanes(a, kLph);
  const Work work(a, static_cast<i64>(blockIdx.x) * kSweepWarps +
                         static_cast<int>(threadIdx.x) / kWarp);
  if (work.row < 0) return;
  const Pass pass(a, lanes, work.row);
  State state;
  const int step = Pass::kUnroll * lanes.abreast;
  for (int e = 0; e < work.count; e += step) {
    const Edges<Pass::kUnroll> edges(a, work, e + lanes.sub,
                                     lanes.abreast);
    pass.visit(a, lanes, edges, state);
  }
  merge_abreast(state, lanes.lpe);
  if (work.slot < 0) {
    pass.finish(a, lanes, work.row, state);
  } else if (lanes.sub == 0) {
    float* to = scratch_of(a, lanes, work.slot, State::kFloats);
#pragma unroll
    for (int i = 0; i < State::kFloats; ++i) to[i * lanes.lpe] = state.x[i];
  }
}

// One block a hub: every warp merges some of the pieces, the first one the
// results. `shared` holds kMergeWarps * kWarp * kFloats floats.
template <class Pass>
__device__ __forceinline__ void merge_pieces(const Args& a, float* shared) {
  using State = typename Pass::State;
  const int hub = static_cast<int>(blockIdx.x);
  const int first = __ldg(a.chunks + hub), last = __ldg(a.chunks + hub + 1);
  if (first == last) return;
  const Lanes lanes(a, a.lph);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  State state;
  for (int c = first + warp * lanes.abreast + lanes.sub; c < last;
       c += kMergeWarps * lanes.abreast) {
    const float* from = scratch_of(a, lanes, c, State::kFloats);
    State piece;
#pragma unroll
    for (int i = 0; i < State::kFloats; ++i) piece.x[i] = from[i * lanes.lpe];
    state.merge(piece);
  }
  merge_abreast(state, lanes.lpe);
  constexpr int kThreads = kMergeWarps * kWarp;
#pragma unroll
  for (int i = 0; i < State::kFloats; ++i)
    shared[i * kThreads + threadIdx.x] = state.x[i];
  __syncthreads();
  if (warp > 0) return;
  for (int w = 1; w < kMergeWarps; ++w) {
    State piece;
#pragma unroll
    for (int i = 0; i < State::kFloats; ++i)
      piece.x[i] = shared[i * kThreads + w * kWarp + threadIdx.x];
    state.merge(piece);
  }
  const int row = __ldg(a.order + hub);
  Pass(a, lanes, row).finish(a, lanes, row, state);
}

}  // namespace teg::cuda
