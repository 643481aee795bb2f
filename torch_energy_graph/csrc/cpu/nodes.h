// Node tensors [N, heads, channels] of any storage type, read and written
// one group of heads at a time in the type of sums, channels padded with
// zeros to whole vectors.
#pragma once

#include <cstdlib>
#include <new>

#include "kernels.h"
#include "vec.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace teg {
namespace TEG_ISA {

constexpr int64_t kMaxWidth = kMaxChannels;  // padded, of a group
constexpr int64_t kMaxHeads = 16;  // of a group

// The heads that a sweep works on. NV is the number of vectors of a head,
// or 0 if it is known at run time only.
template <int NV>
struct Heads {
  Storage storage;
  int64_t num_heads, channels, first, count;

  TEG_INLINE int vectors() const {
    return NV ? NV : static_cast<int>((channels + kLanes - 1) / kLanes);
  }
  TEG_INLINE int64_t padded() const { return vectors() * kLanes; }
  TEG_INLINE int64_t width() const { return count * padded(); }
  TEG_INLINE int64_t place(int64_t node) const {
    return (node * num_heads + first) * channels;
  }

  template <class S, class A>
  TEG_INLINE void read_as(const S* from, A* to) const {
    for (int64_t h = 0; h < count; ++h) {
      for (int64_t c = 0; c < channels; ++c) {
        to[h * padded() + c] = get(from + h * channels + c);
      }
      for (int64_t c = channels; c < padded(); ++c) {
        to[h * padded() + c] = 0;
      }
    }
  }

  template <class S, class A>
  TEG_INLINE void write_as(S* to, const A* from) const {
    for (int64_t h = 0; h < count; ++h) {
      for (int64_t c = 0; c < channels; ++c) {
        put(to + h * channels + c, from[h * padded() + c]);
      }
    }
  }

  TEG_INLINE void read(const void* table, int64_t node, double* to) const {
    read_as(static_cast<const double*>(table) + place(node), to);
  }

  TEG_INLINE void read(const void* table, int64_t node, float* to) const {
    if (storage == Storage::kFloat) {
      read_as(static_cast<const float*>(table) + place(node), to);
    } else {
      read_as(static_cast<const BFloat16*>(table) + place(node), to);
    }
  }

  TEG_INLINE void write(void* table, int64_t node, const double* from) const {
    write_as(static_cast<double*>(table) + place(node), from);
  }

  TEG_INLINE void write(void* table, int64_t node, const float* from) const {
    if (storage == Storage::kFloat) {
      write_as(static_cast<float*>(table) + place(node), from);
    } else {
      write_as(static_cast<BFloat16*>(table) + place(node), from);
    }
  }
};

// Memory for one table, in huge pages where the system has them: a sweep
// jumps about in it, and small pages would cost a page walk per jump.
template <class A>
class Buffer {
 public:
  explicit Buffer(int64_t count) {
    constexpr size_t kLine = 64, kHuge = size_t{1} << 21;
    size_t bytes = static_cast<size_t>(count) * sizeof(A) + kLine;
    const size_t page = bytes < 2 * kHuge ? kLine : kHuge;
    bytes = (bytes + page - 1) / page * page;
    data_ = static_cast<A*>(std::aligned_alloc(page, bytes));
    if (data_ == nullptr) {
      throw std::bad_alloc();
    }
#ifdef MADV_HUGEPAGE
    if (page == kHuge) {
      madvise(data_, bytes, MADV_HUGEPAGE);
    }
#endif
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  A* data() const { return data_; }

 private:
  A* data_;
};

constexpr int64_t kRows = 4096;  // of one task

// Copies the group's slices of all rows side by side.
template <int NV, class A>
void pack(
    const Heads<NV>& heads, const void* table, int64_t count, A* to,
    Run run) {
  struct Job {
    const Heads<NV>& heads;
    const void* table;
    int64_t count;
    A* to;

    static void span(void* context, int64_t i) {
      const Job& job = *static_cast<Job*>(context);
      const int64_t last =
          (i + 1) * kRows < job.count ? (i + 1) * kRows : job.count;
      for (int64_t node = i * kRows; node < last; ++node) {
        job.heads.read(job.table, node, job.to + node * job.heads.width());
      }
    }
  };
  Job job{heads, table, count, to};
  run((count + kRows - 1) / kRows, &Job::span, &job);
}

}  // namespace TEG_ISA
}  // namespace teg
