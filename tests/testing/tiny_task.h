// tiny_task.h - a task of one's own as small as there is: the mean of four numbers is learned.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTING_TINY_TASK_H_
#define DTRAIN_TESTING_TINY_TASK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/ops/dropout.h"
#include "dtrain/train/task.h"

namespace dtrain::testing {

struct TinyTaskOptions {
  bool allocate = true;
  DType compute_type = DType::kFloat32;
  int micro_batches = 1;
  // Of the n-th evaluation, from 1, of this process.
  std::function<std::vector<std::pair<std::string, double>>(int n)> metrics = {};
};

// Weights w of [2, 2] with the loss (w - 1)^2 / 2 each; an epoch has 4 updates.
class TinyTask : public TrainingTask {
 public:
  explicit TinyTask(TinyTaskOptions options = {}) : options_(std::move(options)) {
    if (options_.allocate) parameters_.Allocate({}, options_.compute_type, /*seed=*/1);
  }

  ParameterSet& parameters() override { return parameters_; }
  Status Seek(const DataPosition& position) override {
    position_ = position;
    return OkStatus();
  }
  DataPosition position() const override { return position_; }
  EpochInfo epoch() const override { return {.samples = 4}; }
  StatusOr<int> NextUpdate() override {
    if (++position_.sample == 4) position_ = {.epoch = position_.epoch + 1, .sample = 0};
    return options_.micro_batches;
  }
  LossSums Forward(int /*i*/, Context& ctx) override {
    dropout_key_ = ctx.MakeDropout(0.5f, /*site=*/0).key;
    double loss = 0.0;
    for (int64_t i = 0; i < 4; ++i) {
      const double d = double{weight_.master().data<float>()[i]} - 1.0;
      loss += d * d / 2.0;
    }
    return {.loss = loss, .nll = loss, .tokens = 1};
  }
  void Backward(Context& /*ctx*/) override {
    for (int64_t i = 0; i < 4; ++i) {
      weight_.gradient().data<float>()[i] += weight_.master().data<float>()[i] - 1.0f;
    }
    weight_.GradientReady();
  }
  Evaluation evaluation() override {
    if (!options_.metrics) return {};
    return {.dev = [this](Context& /*ctx*/) -> StatusOr<EvaluationResult> {
      return EvaluationResult{.metrics = options_.metrics(++evaluations_)};
    }};
  }

  // Of the last pass.
  const RandomKey& dropout_key() const { return dropout_key_; }

 private:
  TinyTaskOptions options_;
  ParameterSet parameters_;
  Parameter& weight_ =
      Scope(parameters_, "tiny").Add("weight", {2, 2}, Initializer::Constant(0.0f));
  DataPosition position_;
  RandomKey dropout_key_;
  int evaluations_ = 0;
};

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTING_TINY_TASK_H_
