// config_values.h - converts configuration values that all programs share to the library's types.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_INTERNAL_CONFIG_VALUES_H_
#define DTRAIN_LAUNCH_INTERNAL_CONFIG_VALUES_H_

#include <cstdint>
#include <string>

#include "dtrain/base/dtype.h"
#include "dtrain/base/period.h"
#include "dtrain/base/utf8.h"
#include "dtrain/nn/context.h"
#include "dtrain/ops/bias_activation.h"
#include "dtrain/train/step_graphs.h"

namespace dtrain::proto {
enum CudaGraphs_Mode : int;
enum ModelConfig_Activation : int;
enum PredictConfig_Invalid : int;
enum TrainerConfig_Precision : int;
enum TrainerConfig_Recompute : int;
enum Wire_Precision : int;
}  // namespace dtrain::proto

namespace dtrain::internal {

// The configuration must be validated, so that they parse.
Period PeriodOf(const std::string& text);
double SecondsOf(const std::string& text);

Activation ActivationOf(proto::ModelConfig_Activation activation);
DType DTypeOf(proto::TrainerConfig_Precision precision);
DType DTypeOf(proto::Wire_Precision precision);
// Returns kNone for auto, which is planned later, when the model is known.
Recompute RecomputeOf(proto::TrainerConfig_Recompute recompute);

CudaGraphs CudaGraphsOf(proto::CudaGraphs_Mode mode);
InvalidText InvalidTextOf(proto::PredictConfig_Invalid invalid);

// Turns each line within "model { ... }" into "model.hidden_size: 512", so that a single line shows
// its key.
std::string WithFullNames(const std::string& textproto);

}  // namespace dtrain::internal

#endif  // DTRAIN_LAUNCH_INTERNAL_CONFIG_VALUES_H_
