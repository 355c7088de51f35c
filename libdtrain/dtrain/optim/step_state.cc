// step_state.cc - the state's memory, and the decision on its device.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/optim/step_state.h"

#include <cmath>

#include "dtrain/device/copy.h"
#include "dtrain/device/with_cuda.h"
#include "dtrain/optim/internal/step_kernel.h"

namespace dtrain {

DeviceStep::DeviceStep(const Device& device, const StepRules& rules)
    : device_(device), rules_(rules), memory_(device, sizeof(StepState) + 2 * sizeof(double)) {}

void DeviceStep::Reset(const LossScalerState& loss_scaler, int64_t optimizer_steps,
                       Stream& stream) {
  const StepState start{.loss_scaler = loss_scaler,
                        .optimizer_steps = optimizer_steps,
                        .loss_scale = static_cast<float>(LossScaleOf(rules_, loss_scaler))};
  CopyToDevice(state(), &start, sizeof(start), stream);
}

void DeviceStep::SetInputs(const UpdateInputs& inputs, Stream& stream) {
  CopyToDevice(&state()->inputs, &inputs, sizeof(inputs), stream);
}

void DeviceStep::Decide(Stream& stream) {
  const double* const values = squares().data<double>();
  if constexpr (kWithCuda) {
    if (device_.type == DeviceType::kCuda) {
      return DecideStepKernelCuda({.rules = rules_, .squares = values, .state = state()}, stream);
    }
  }
  DecideStep(rules_, values[0], std::sqrt(values[0]), values[1], *state());
}

void DeviceStep::CopyTo(StepState* to, Stream& stream) const {
  CopyOnDevice(to, state(), sizeof(StepState), stream);
}

}  // namespace dtrain
