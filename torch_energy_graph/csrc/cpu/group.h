// Entries by group, in one pass of counting and one of placing.
#pragma once

#include <cstdint>

namespace teg {

// perm lists the entries of group 0, then of group 1, ..., each group in the
// order given (`order`, or that of the entries); ptr are its bounds. False
// if an index lies outside of 0 ... num_groups - 1.
template <class I>
bool group(
    const I* index, const int32_t* order, int64_t count, int64_t num_groups,
    int64_t* ptr, int32_t* perm) {
  for (int64_t g = 0; g <= num_groups; ++g) {
    ptr[g] = 0;
  }
  for (int64_t e = 0; e < count; ++e) {
    if (index[e] < 0 || index[e] >= num_groups) {
      return false;
    }
    ++ptr[index[e] + 1];
  }
  for (int64_t g = 0; g < num_groups; ++g) {
    ptr[g + 1] += ptr[g];
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t e = order ? order[i] : i;
    perm[ptr[index[e]]++] = static_cast<int32_t>(e);
  }
  for (int64_t g = num_groups; g > 0; --g) {
    ptr[g] = ptr[g - 1];
  }
  ptr[0] = 0;
  return true;
}

}  // namespace teg
