// The entry points. Names, arguments and geometry: attention_args.cuh.
//
// TEG_ONLY_F32, TEG_ONLY_BF16 and TEG_ONLY_LPH=<lph> leave the others out:
// compiling at run time takes as long as what is needed.
#pragma once

#include "attention_backward.cuh"

#ifdef TEG_ONLY_LPH
#define TEG_EACH_LPH(X, ...) TEG_EACH_LPH_OF(X, TEG_ONLY_LPH, __VA_ARGS__)
#define TEG_EACH_LPH_OF(X, lph, ...) X(__VA_ARGS__, lph)
#else
#define TEG_EACH_LPH(X, ...)                              \
  X(__VA_ARGS__, 1) X(__VA_ARGS__, 2) X(__VA_ARGS__, 4)   \
  X(__VA_ARGS__, 8) X(__VA_ARGS__, 16) X(__VA_ARGS__, 32)
#endif

#define TEG_SWEEP(pass, Pass, suffix, T, lanes)                          \
  extern "C" __global__ void                                             \
  __launch_bounds__(kSweepWarps * kWarp, Pass<T>::kBlocks)               \
      ea_##pass##_##suffix##_l##lanes(const Args args) {                 \
    sweep<Pass<T>, lanes>(args);                                         \
  }

#define TEG_MERGE(pass, Pass, suffix, T)                                 \
  extern "C" __global__ void __launch_bounds__(kMergeWarps * kWarp)      \
      ea_##pass##_merge_##suffix(const Args args) {                      \
    __shared__ float                                                     \
        shared[kMergeWarps * kWarp * Pass<T>::State::kFloats];           \
    merge_pieces<Pass<T>>(args, shared);                                 \
  }

#define TEG_PASS(pass, Pass, suffix, T)              \
  TEG_EACH_LPH(TEG_SWEEP, pass, Pass, suffix, T)     \
  TEG_MERGE(pass, Pass, suffix, T)

#define TEG_PASSES(suffix, T)                  \
  TEG_PASS(fwd_row, ForwardRow, suffix, T)     \
  TEG_PASS(fwd_col, ForwardCol, suffix, T)     \
  TEG_PASS(bwd_row, BackwardRow, suffix, T)    \
  TEG_PASS(bwd_col, BackwardCol, suffix, T)

namespace teg::cuda {

#ifndef TEG_ONLY_BF16
TEG_PASSES(f32, float)
#endif
#ifndef TEG_ONLY_F32
TEG_PASSES(bf16, bf16)
#endif

}  // namespace teg::cuda
