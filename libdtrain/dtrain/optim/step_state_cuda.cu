// step_state_cuda.cu - the decision about an update on the GPU.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/cuda/launch.cuh"
#include "dtrain/optim/internal/step_kernel.h"

namespace dtrain {
namespace {

constexpr int kDecideThreads = 32;

/// Runs DecideStep() of optim/step_state.h in one thread. It touches a few hundred bytes; the
/// launch dominates the time.
__global__ __launch_bounds__(kDecideThreads) void DecideStepKernel(DecideStepArgs args) {
  if (threadIdx.x != 0) return;
  const double squares = args.squares[0];
  DecideStep(args.rules, squares, sqrt(squares), args.squares[1], *args.state);
}

}  // namespace

void DecideStepKernelCuda(const DecideStepArgs& args, Stream& stream) {
  Launch(DecideStepKernel, {.blocks = {1}, .threads = kDecideThreads}, args, stream);
}

}  // namespace dtrain
