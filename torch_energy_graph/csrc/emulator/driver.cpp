// What the tests call: one pass of energy attention, one softmax, or a single
// kernel, on host memory. Returns null, or what went wrong.
#include <string>

#include "../cuda/launch.cuh"

namespace {

using namespace teg::cuda;

template <class Run>
const char* guarded(Run run) {
  static std::string message;
  try {
    run();
    return nullptr;
  } catch (const std::exception& error) {
    message = error.what();
    return message.c_str();
  }
}

const auto launch = [](auto kernel, unsigned x, unsigned y, unsigned threads,
                       const auto& args) {
  emulator::launch({x, y}, threads, [=] { kernel(args); });
};

}  // namespace

extern "C" {

// Fills the sizes of `args`, and returns the floats of scratch it needs.
long long emulator_prepare(Args* args, bool is_bf16, int pass, int heads,
                           int channels, long long rows, long long edges) {
  set_lanes(*args, is_bf16, heads, channels);
  set_rows(*args, rows, edges);
  return scratch_floats(*args, is_bf16, static_cast<Pass>(pass));
}

const char* emulator_pass(const Args* args, bool is_bf16, int pass) {
  return guarded(
      [=] { run_pass(*args, is_bf16, static_cast<Pass>(pass), launch); });
}

const char* emulator_softmax(const SoftmaxArgs* args, bool is_bf16,
                             bool backward) {
  return guarded([=] { run_softmax(*args, is_bf16, backward, launch); });
}

// One kernel on one grid, as a launcher outside of this file plans it.
const char* emulator_launch(Kernel kernel, unsigned x, unsigned y,
                            unsigned threads, const Args* args) {
  return guarded([=] { launch(kernel, x, y, threads, *args); });
}

const char* emulator_launch_softmax(SoftmaxKernel kernel, unsigned x,
                                    unsigned y, unsigned threads,
                                    const SoftmaxArgs* args) {
  return guarded([=] { launch(kernel, x, y, threads, *args); });
}

// Lets the fibers run in the opposite order: results may not depend on it.
void emulator_backwards(bool backwards) {
  emulator::machine.backwards = backwards;
}

// A kernel whose first lane leaves before the others meet.
const char* emulator_deadlock() {
  return guarded([] {
    emulator::launch({1, 1}, 32, [] {
      if (threadIdx.x > 0) __syncthreads();
    });
  });
}

// Shared memory that was never written, as a block sees it.
float emulator_fresh_shared() {
  static float seen;
  emulator::launch({1, 1}, 32, [] {
    __shared__ float shared[1];
    seen = shared[0];
  });
  return seen;
}

}  // extern "C"
