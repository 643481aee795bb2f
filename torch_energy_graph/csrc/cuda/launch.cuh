// Host side: which kernel runs on which grid. `launch(kernel, x, y, threads,
// args)` is the caller's: a CUDA stream in bind.cu, fibers in the emulator.
#pragma once

#include "attention.cuh"
#include "scatter_softmax.cuh"

namespace teg::cuda {

enum Pass { kForwardRow, kForwardCol, kBackwardRow, kBackwardCol, kPasses };

using Kernel = void (*)(Args);
using SoftmaxKernel = void (*)(SoftmaxArgs);

#define TEG_KERNELS(pass, suffix)                                     \
  {ea_##pass##_##suffix##_l1,  ea_##pass##_##suffix##_l2,             \
   ea_##pass##_##suffix##_l4,  ea_##pass##_##suffix##_l8,             \
   ea_##pass##_##suffix##_l16, ea_##pass##_##suffix##_l32,            \
   ea_##pass##_merge_##suffix}

#define TEG_TABLE(suffix)                                             \
  {TEG_KERNELS(fwd_row, suffix), TEG_KERNELS(fwd_col, suffix),        \
   TEG_KERNELS(bwd_row, suffix), TEG_KERNELS(bwd_col, suffix)}

constexpr int kMergeColumn = 6;  // behind lph = 1, 2, 4, 8, 16, 32

inline Kernel find_kernel(bool is_bf16, Pass pass, int column) {
  static const Kernel table[2][kPasses][kMergeColumn + 1] = {
      TEG_TABLE(f32), TEG_TABLE(bf16)};
  return table[is_bf16][pass][column];
}

inline int log2_up(i64 x) {
  int log = 0;
  while ((i64{1} << log) < x) ++log;
  return log;
}

inline int vector_size(bool is_bf16) { return is_bf16 ? 8 : 4; }

inline bool supports_channels(bool is_bf16, i64 channels) {
  const i64 lph = channels / vector_size(is_bf16);
  return lph >= 1 && lph <= kWarp && (lph & (lph - 1)) == 0 &&
         lph * vector_size(is_bf16) == channels;
}

inline void set_lanes(Args& args, bool is_bf16, int heads, int channels) {
  args.heads = heads;
  args.lph = channels / vector_size(is_bf16);
  const i64 all = i64{args.lph} << log2_up(heads);
  args.lpe = static_cast<int>(all < kWarp ? all : kWarp);
}

inline void set_rows(Args& args, i64 num_rows, i64 num_edges) {
  const i64 most = num_edges / kChunk;
  args.num_rows = static_cast<int>(num_rows);
  args.most_hubs = static_cast<int>(most < num_rows ? most : num_rows);
  args.num_slots = static_cast<int>(2 * most);
}

inline i64 head_groups(const Args& args) {
  const int heads = args.lpe / args.lph;
  return (args.heads + heads - 1) / heads;
}

inline i64 scratch_floats(const Args& args, bool is_bf16, Pass pass) {
  const int nv = vector_size(is_bf16);
  const int floats[kPasses] = {nv + 2, nv, (is_bf16 ? 3 : 2) * nv, nv};
  return args.num_slots * head_groups(args) * args.lpe * floats[pass];
}

template <class Launch>
void run_pass(const Args& args, bool is_bf16, Pass pass, Launch launch) {
  if (args.num_rows == 0) return;
  const i64 items = i64{args.num_slots} + args.num_rows;
  const unsigned groups = static_cast<unsigned>(head_groups(args));
  const unsigned blocks =
      static_cast<unsigned>((items + kSweepWarps - 1) / kSweepWarps);
  launch(find_kernel(is_bf16, pass, log2_up(args.lph)), blocks, groups,
         kSweepWarps * kWarp, args);
  if (args.num_slots > 0)
    launch(find_kernel(is_bf16, pass, kMergeColumn),
           static_cast<unsigned>(args.most_hubs), groups,
           kMergeWarps * kWarp, args);
}

template <class Launch>
void run_softmax(SoftmaxArgs args, bool is_bf16, bool backward,
                 Launch launch) {
  static const SoftmaxKernel table[2][2] = {
      {scatter_softmax_forward_f32, scatter_softmax_backward_f32},
      {scatter_softmax_forward_bf16, scatter_softmax_backward_bf16}};
  if (args.num_groups == 0 || args.features == 0) return;
  const int log = log2_up(args.features);
  args.width = log < 5 ? 1 << log : kWarp;
  launch(table[is_bf16][backward],
         static_cast<unsigned>((args.num_groups + kGroupWarps - 1) /
                               kGroupWarps),
         static_cast<unsigned>((args.features + args.width - 1) / args.width),
         kGroupWarps * kWarp, args);
}

}  // namespace teg::cuda
