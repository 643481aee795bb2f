// Runs CUDA kernels on the CPU, one block after the other, so that tests can
// execute the unchanged source without a GPU.
//
// Every CUDA thread is a fiber with its own stack. A round-robin scheduler
// resumes a fiber until it waits at a barrier or ends. A warp shuffle is a
// barrier of 32 fibers around a buffer, __syncthreads one of the block.
// Stricter than a GPU on purpose: a lane that leaves while others of its warp
// or block wait is an error, and shared memory is filled with NaN before every
// block.
//
// It finds wrong indices, masks, merges and missing barriers. It does not find
// misaligned addresses or races in global memory, and says nothing on speed.
#pragma once

#include <csetjmp>
#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include <ucontext.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
// one named section, so that its bounds are known
#define __shared__ static __attribute__((section("teg_shared")))
extern "C" char __start_teg_shared[], __stop_teg_shared[];

struct dim3 {
  unsigned x, y;
};
struct float2 {
  float x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {

constexpr unsigned kWarp = 32;
constexpr size_t kStackBytes = 64 * 1024;

struct Barrier {
  unsigned waiting = 0;
  unsigned generation = 0;
};

// Two buffers in turn: who writes the second one has passed the barrier of the
// first, so all its readers may take their time until then.
struct Warp {
  Barrier barrier;
  float slots[2][kWarp];
};

struct Fiber {
  ucontext_t entry;
  jmp_buf resume;
  std::vector<char> stack = std::vector<char>(kStackBytes);
  bool started;
  bool done;
  unsigned shuffles;
};

struct Machine {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier block;
  std::function<void()> kernel;
  jmp_buf scheduler;
  bool progress;
  bool backwards = false;  // resume the fibers in the opposite order
};

inline Machine machine;

// swapcontext saves the signal mask with a system call; once a fiber has its
// stack, the jumps below switch without one.
inline void yield() {
  Fiber& fiber = machine.fibers[threadIdx.x];
  if (_setjmp(fiber.resume) == 0) _longjmp(machine.scheduler, 1);
}

inline void wait(Barrier& barrier, unsigned members) {
  const unsigned generation = barrier.generation;
  if (++barrier.waiting == members) {
    barrier.waiting = 0;
    ++barrier.generation;
    machine.progress = true;
  } else {
    while (barrier.generation == generation) yield();
  }
}

inline void run_fiber() {
  machine.kernel();
  machine.fibers[threadIdx.x].done = true;
  machine.progress = true;
  _longjmp(machine.scheduler, 1);
}

inline void resume(unsigned thread) {
  threadIdx.x = thread;
  Fiber& fiber = machine.fibers[thread];
  if (_setjmp(machine.scheduler) != 0) return;
  if (fiber.started) _longjmp(fiber.resume, 1);
  fiber.started = true;
  setcontext(&fiber.entry);
}

inline void start_block() {
  std::memset(__start_teg_shared, 0xff,
              static_cast<size_t>(__stop_teg_shared - __start_teg_shared));
  machine.warps.assign(blockDim.x / kWarp, Warp());
  machine.block = Barrier();
  for (Fiber& fiber : machine.fibers) {
    fiber.started = fiber.done = false;
    fiber.shuffles = 0;
    getcontext(&fiber.entry);
    fiber.entry.uc_stack.ss_sp = fiber.stack.data();
    fiber.entry.uc_stack.ss_size = kStackBytes;
    fiber.entry.uc_link = nullptr;
    makecontext(&fiber.entry, run_fiber, 0);
  }
}

inline void run_block() {
  start_block();
  bool all_done = false;
  while (!all_done) {
    machine.progress = false;
    all_done = true;
    for (unsigned i = 0; i < blockDim.x; ++i) {
      const unsigned thread = machine.backwards ? blockDim.x - 1 - i : i;
      if (machine.fibers[thread].done) continue;
      resume(thread);
      all_done = false;
    }
    if (!all_done && !machine.progress)
      throw std::runtime_error("a barrier that not all threads reach");
  }
}

inline void launch(dim3 grid, unsigned threads, std::function<void()> kernel) {
  gridDim = grid;
  blockDim = {threads, 1};
  machine.kernel = std::move(kernel);
  machine.fibers.resize(threads);
  for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) run_block();
}

}  // namespace emulator

inline void __syncthreads() {
  emulator::wait(emulator::machine.block, blockDim.x);
}

inline float __shfl_xor_sync(unsigned, float value, int distance) {
  using namespace emulator;
  Warp& warp = machine.warps[threadIdx.x / kWarp];
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned thread = threadIdx.x;
  float* slots = warp.slots[machine.fibers[thread].shuffles++ % 2];
  slots[lane] = value;
  wait(warp.barrier, kWarp);
  return slots[lane ^ static_cast<unsigned>(distance)];
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}

inline float __uint_as_float(unsigned x) {
  float out;
  std::memcpy(&out, &x, sizeof out);
  return out;
}

inline unsigned __float_as_uint(float x) {
  unsigned out;
  std::memcpy(&out, &x, sizeof out);
  return out;
}

inline float __int_as_float(int x) {
  return __uint_as_float(static_cast<unsigned>(x));
}
