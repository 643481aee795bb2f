// Eight lanes: loads, stores, sums and exp for float, double and bfloat16.
//
// Every instruction set gets its own copy of this code (see kernels.cpp), in
// a namespace of its own, so that the linker cannot mix them up. Compiler
// vectors rather than loops: loops over few channels are not vectorised.
#pragma once

#include <cstdint>

#define TEG_INLINE inline __attribute__((always_inline))
#define TEG_OUTLINE inline __attribute__((noinline))

namespace teg {

struct BFloat16 {
  uint16_t bits;
};

namespace TEG_ISA {

constexpr int kLanes = 8;
constexpr float kInfinity = __builtin_huge_valf();

template <class A>
struct Lanes;

template <>
struct Lanes<float> {
  typedef float V __attribute__((vector_size(32)));
  typedef int32_t I __attribute__((vector_size(32)));
};

template <>
struct Lanes<double> {
  typedef double V __attribute__((vector_size(64)));
  typedef int64_t I __attribute__((vector_size(64)));
};

template <class A>
using Vec = typename Lanes<A>::V;

template <class A>
TEG_INLINE Vec<A> splat(A x) {
  return x - Vec<A>{};
}

TEG_INLINE Vec<float> load(const float* p) {
  Vec<float> x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}

TEG_INLINE Vec<double> load(const double* p) {
  Vec<double> x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}

TEG_INLINE void store(float* p, Vec<float> x) {
  __builtin_memcpy(p, &x, sizeof x);
}

TEG_INLINE void store(double* p, Vec<double> x) {
  __builtin_memcpy(p, &x, sizeof x);
}

TEG_INLINE float get(const float* p) { return *p; }
TEG_INLINE double get(const double* p) { return *p; }
TEG_INLINE float get(const BFloat16* p) {
  const uint32_t bits = static_cast<uint32_t>(p->bits) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

TEG_INLINE void put(float* p, float x) { *p = x; }
TEG_INLINE void put(double* p, double x) { *p = x; }
// To the nearest, ties to even; NaN stays NaN.
TEG_INLINE void put(BFloat16* p, float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  p->bits = static_cast<uint16_t>((x == x ? rounded : bits | 0x400000u) >> 16);
}

template <class V>
TEG_INLINE V select_max(V a, V b) {
  // a NaN in `a` is kept: nothing bad may disappear
  return b > a ? b : a;
}

// Sums of eight vectors, one in every lane.
template <class V>
TEG_INLINE V sums(const V* x) {
  V pair[4], four[2];
  for (int i = 0; i < 4; ++i) {
    V a = x[2 * i], b = x[2 * i + 1];
    pair[i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13) +
        __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 2; ++i) {
    V a = pair[2 * i], b = pair[2 * i + 1];
    four[i] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
        __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  }
  return __builtin_shufflevector(
             four[0], four[1], 0, 1, 2, 3, 8, 9, 10, 11) +
      __builtin_shufflevector(four[0], four[1], 4, 5, 6, 7, 12, 13, 14, 15);
}

template <class V>
TEG_INLINE auto sum(V x) {
  return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

template <class V>
TEG_INLINE auto largest(V x) {
  auto top = x[0];
  for (int i = 1; i < kLanes; ++i) {
    top = x[i] > top ? x[i] : top;
  }
  return top;
}

// exp(x) for x <= 0 (a little above is fine, too): n ln 2 is taken out, the
// rest is a polynomial, 2^n goes into the exponent bits. Below the normal
// numbers it is 0, which is what masked logits need; NaN stays NaN.
TEG_INLINE Vec<float> exp(Vec<float> x) {
  typedef Lanes<float>::I I;
  const Vec<float> c = x < -87.0f ? splat(-87.0f) : x;
  Vec<float> t = c * 1.44269504088896341f + 12582912.0f;  // 1.5 * 2^23
  Vec<float> n = t - 12582912.0f;
  // ln 2 in two parts, the first with few bits: n times it is exact
  Vec<float> r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
  Vec<float> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  I bits, power;
  __builtin_memcpy(&bits, &p, sizeof p);
  __builtin_memcpy(&power, &t, sizeof t);
  bits += power << 23;
  __builtin_memcpy(&p, &bits, sizeof p);
  return x < -87.0f ? splat(0.0f) : p;
}

TEG_INLINE Vec<double> exp(Vec<double> x) {
  typedef Lanes<double>::I I;
  Vec<double> c = x < -708.0 ? splat(-708.0) : x;
  Vec<double> t = c * 1.4426950408889634074 + 6755399441055744.0;
  Vec<double> n = t - 6755399441055744.0;  // 1.5 * 2^52
  Vec<double> r = c - n * 6.93145751953125e-1;
  r = r - n * 1.42860682030941723212e-6;
  Vec<double> p = splat(1.0 / 6227020800.0);  // Taylor, to r^13 / 13!
  constexpr double inverse[] = {
      1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0,
      1.0 / 40320.0,     1.0 / 5040.0,     1.0 / 720.0,     1.0 / 120.0,
      1.0 / 24.0,        1.0 / 6.0,        0.5,             1.0,
      1.0};
  for (double coefficient : inverse) {
    p = p * r + coefficient;
  }
  I bits, power;
  __builtin_memcpy(&bits, &p, sizeof p);
  __builtin_memcpy(&power, &t, sizeof t);
  bits += power << 52;
  __builtin_memcpy(&p, &bits, sizeof p);
  return x < -708.0 ? splat(0.0) : p;
}

template <class A>
TEG_INLINE A exp_one(A x) {
  return exp(splat(x))[0];
}

}  // namespace TEG_ISA
}  // namespace teg
