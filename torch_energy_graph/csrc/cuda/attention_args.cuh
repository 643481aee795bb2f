// Arguments and launch geometry of the energy attention kernels.
//
// Names     ea_<pass>_<type>_l<lph>    the sweep over the edges
//           ea_<pass>_merge_<type>     after it, if num_slots > 0
//           pass fwd_row, fwd_col, bwd_row, bwd_col, in this order;
//           type f32, bf16; lph 1, 2, 4, 8, 16, 32
// Argument  one `Args` by value; fields a pass does not name may be null
// Lanes     nv = 4 (f32) or 8 (bf16) channels a lane (16 bytes)
//           lph = Y / nv lanes a head; lpe = min(32, pow2(H) * lph) lanes an
//           edge, pow2 rounding up; groups = ceil(H * lph / lpe)
// Sweep     grid (ceil((num_slots + num_rows) / 4), groups), block 128
// Merge     grid (most_hubs, groups), block 256
// Slots     num_slots = 2 * (E / 512), which no graph exceeds, because a hub
//           of d > 512 edges has ceil(d / 512) <= 2 * (d / 512) pieces
// Scratch   floats: num_slots * groups * lpe * state floats, which are
//           nv + 2, nv, 2 nv (f32) or 3 nv (bf16), and nv for the four passes
//           in their order; no need to clear it
// Row passes take the CSR arrays (rows are targets), column passes the CSC
// arrays (rows are sources). A launch with num_rows = 0 must be left out.
#pragma once

#include "common.cuh"

namespace teg::cuda {

constexpr int kChunk = 512;  // edges of a piece, CHUNK in ops/plan.py
constexpr int kSweepWarps = 4;
constexpr int kMergeWarps = 8;
// Resident on a multiprocessor: leaves 96 registers a thread. Without it ptxas
// aims at 64 and spills. A pass with many sums takes one block less.
constexpr int kSweepBlocks = 5;

struct Args {
  const i64* ptr;       // [rows + 1]
  const int* other;     // [E] the other end
  const int* edge;      // [E] place of the edge in bias, read only with one
  const int* order;     // [rows] by falling degree
  const int* chunks;    // [most_hubs + 1] pieces of the hubs
  const void* q;        // [N_dst, H, Y]
  const void* k;        // [N_src, H, Y]
  const float* bias;    // [E, H] or null
  float* lse;           // [N_dst, H] out: fwd_row; in: fwd_col, bwd_row
  void* u;              // [N_dst, H, Y] out: fwd_row; in: bwd_row of f32
  void* v;              // [N_src, H, Y] out: fwd_col
  const float* grad_lse;  // [N_dst, H] 0 where lse = -inf
  const void* grad_u;   // [N_dst, H, Y]
  const void* grad_v;   // [N_src, H, Y]
  float2* lse_tau;      // [N_dst, H] out: bwd_row; in: bwd_col
  void* grad_q;         // [N_dst, H, Y] out: bwd_row
  void* grad_k;         // [N_src, H, Y] out: bwd_col
  float* grad_bias;     // [E, H] out: bwd_col, or null
  float* scratch;       // partial sums of the pieces
  int num_rows;
  int most_hubs;        // min(rows, E / 512)
  int num_slots;
  int heads;
  int lph;
  int lpe;
};

}  // namespace teg::cuda
