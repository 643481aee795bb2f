/* Sums rows of a table in the order given, asking ahead for later ones: as
 * fast as one core can gather. `width` is a multiple of 64 floats. */
#include <stdint.h>

#define LANES 16
typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4)));

float gather_ceiling(
    const float* table, const int32_t* index, int64_t count, int64_t width,
    int64_t ahead) {
  Vector sum[4] = {{0}};
  for (int64_t e = 0; e < count; ++e) {
    const int64_t next = e + ahead < count ? e + ahead : count - 1;
    const float* later = table + index[next] * width;
    for (int64_t c = 0; c < width; c += 16) {
      __builtin_prefetch(later + c);
    }
    const float* row = table + index[e] * width;
    for (int64_t c = 0; c < width; c += 4 * LANES) {
      for (int i = 0; i < 4; ++i) {
        sum[i] += *(const Vector*)(row + c + i * LANES);
      }
    }
  }
  sum[0] += sum[1] + sum[2] + sum[3];
  float total = 0;
  for (int i = 0; i < LANES; ++i) {
    total += sum[0][i];
  }
  return total;
}
