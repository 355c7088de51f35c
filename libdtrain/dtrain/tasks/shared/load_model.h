// load_model.h - how a trained model is opened: which checkpoint, on which device.
// SPDX-License-Identifier: Apache-2.0
//
//   const LoadModelOptions options = {.metric = "bleu", .compute_type = DType::kBFloat16};
//   DT_ASSIGN_OR_RETURN(const TranslationModel trained, LoadTranslationModel("runs/de", options));
#ifndef DTRAIN_TASKS_SHARED_LOAD_MODEL_H_
#define DTRAIN_TASKS_SHARED_LOAD_MODEL_H_

#include <string>

#include "dtrain/base/dtype.h"
#include "dtrain/device/device.h"

namespace dtrain {

// Which checkpoint is opened, and in which form.
struct LoadModelOptions {
  // Takes the run's best checkpoint by this metric, or its newest good one. Empty: the metric that
  // chose the run's own best checkpoint.
  std::string metric = {};
  Device device = {};
  DType compute_type = DType::kFloat32;  // on CPUs float32 instead of float16
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_LOAD_MODEL_H_
