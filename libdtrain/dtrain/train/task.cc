// task.cc - what a task's parameters have to be.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/task.h"

#include "dtrain/base/check.h"

namespace dtrain {

void CheckComputeType(TrainingTask& task, DType compute_type) {
  task.parameters().CheckAllocated();
  const DType ours = task.parameters().compute_type();
  DT_CHECK(ours == compute_type)
      << "the parameters were allocated for " << Name(ours) << ", the context computes in "
      << Name(compute_type)
      << ": give ParameterSet::Allocate() and ContextOptions::compute_type the same";
}

}  // namespace dtrain
