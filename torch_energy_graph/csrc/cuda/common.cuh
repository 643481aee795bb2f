// Words shared by all kernels: 16-byte vectors, sums over lanes, safe exp.
//
// The kernels read raw pointers and include no header, so that one text
// compiles under nvcc, under NVRTC, and with -DTEG_EMULATOR under g++.
#pragma once

#ifdef TEG_EMULATOR
#include "../emulator/cuda_emulator.h"
#endif

namespace teg::cuda {

using i64 = long long;

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

struct bf16 {
  unsigned short bits;
};

__device__ __forceinline__ float minus_infinity() {
  return __int_as_float(static_cast<int>(0xff800000u));
}

__device__ __forceinline__ float to_float(float x) { return x; }

__device__ __forceinline__ float to_float(bf16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

template <typename T>
__device__ __forceinline__ T from_float(float x);

template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}

// To the nearest, ties to even; NaN stays NaN.
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) {
  const unsigned bits = __float_as_uint(x);
  const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return {static_cast<unsigned short>(x != x ? 0x7fc0u : rounded)};
}

// One lane's share of a node row: 16 bytes.
template <typename T>
struct Vec;

template <>
struct Vec<float> {
  static constexpr int kSize = 4;
  static constexpr bool kExact = true;  // stored sums are as good as new

  static __device__ __forceinline__ void unpack(uint4 raw, float* x) {
    x[0] = __uint_as_float(raw.x);
    x[1] = __uint_as_float(raw.y);
    x[2] = __uint_as_float(raw.z);
    x[3] = __uint_as_float(raw.w);
  }

  static __device__ __forceinline__ uint4 pack(const float* x) {
    return {__float_as_uint(x[0]), __float_as_uint(x[1]),
            __float_as_uint(x[2]), __float_as_uint(x[3])};
  }
};

template <>
struct Vec<bf16> {
  static constexpr int kSize = 8;
  static constexpr bool kExact = false;

  static __device__ __forceinline__ void unpack(uint4 raw, float* x) {
    const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = __uint_as_float(words[i] << 16);
      x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  }

  static __device__ __forceinline__ uint4 pack(const float* x) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned low = from_float<bf16>(x[2 * i]).bits;
      const unsigned high = from_float<bf16>(x[2 * i + 1]).bits;
      words[i] = low | high << 16;
    }
    return {words[0], words[1], words[2], words[3]};
  }
};

// Sum over groups of `width` neighbouring lanes, a power of two.
__device__ __forceinline__ float sum_lanes(float x, int width) {
#pragma unroll
  for (int d = width / 2; d > 0; d /= 2) x += __shfl_xor_sync(kAllLanes, x, d);
  return x;
}

// -inf stands for "nothing": differences to it are taken to 0 instead, so
// that exp(-inf - 0) = 0 and not NaN. A NaN stays one.
__device__ __forceinline__ float or_zero(float x) {
  return x == minus_infinity() ? 0.0f : x;
}

// exp(a - b). The difference first: a and b may be large, and exact there.
__device__ __forceinline__ float exp_diff(float a, float b) {
  constexpr float kLog2e = 1.4426950408889634f;
  return exp2f((a - b) * kLog2e);
}

}  // namespace teg::cuda
