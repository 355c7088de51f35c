// step_kernel.h - arguments of the kernel that implements optim/step_state.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPTIM_INTERNAL_STEP_KERNEL_H_
#define DTRAIN_OPTIM_INTERNAL_STEP_KERNEL_H_

#include "dtrain/device/stream.h"
#include "dtrain/optim/step_state.h"

namespace dtrain {

struct DecideStepArgs {
  StepRules rules;
  const double* squares = nullptr;  // {sum of squares, number of NaNs and infinities}
  StepState* state = nullptr;
};
void DecideStepKernelCuda(const DecideStepArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPTIM_INTERNAL_STEP_KERNEL_H_
