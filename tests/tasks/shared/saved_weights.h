// saved_weights.h - puts a small model's weights into a checkpoint, and compares weights.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TASKS_SHARED_SAVED_WEIGHTS_H_
#define DTRAIN_TESTS_TASKS_SHARED_SAVED_WEIGHTS_H_

#include <string>
#include <vector>

#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/train/train_state.h"
#include "testing/catch.h"

namespace dtrain::testing {

// Step 7 of a run that keeps its checkpoints in `directory`, with the program's own `files`.
inline void SaveWeights(ParameterSet& parameters, const std::vector<NamedFile>& files,
                        const std::string& directory) {
  Adam adam(parameters, {});
  const auto checkpoints = CheckpointDirectory::Open(directory, {});
  REQUIRE(checkpoints.ok());
  auto writer = *checkpoints;
  REQUIRE(writer.Save(7, MakeCheckpointFiles({}, parameters, adam, files)).ok());
}

inline void CheckSameWeights(ParameterSet& parameters, ParameterSet& expected) {
  for (Parameter* parameter : expected.in_backward_order()) {
    INFO(parameter->name());
    Parameter* const found = parameters.Find(parameter->name());
    REQUIRE(found != nullptr);
    const auto values = [](const Tensor& tensor) {
      return std::vector<float>(tensor.data<float>(), tensor.data<float>() + tensor.elements());
    };
    CHECK(values(found->master()) == values(parameter->master()));
  }
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TASKS_SHARED_SAVED_WEIGHTS_H_
