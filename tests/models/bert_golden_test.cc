// bert_golden_test.cc - BERT and its relatives against PyTorch: outputs, gradients, updates.
// SPDX-License-Identifier: Apache-2.0
#include "testing/bert_golden.h"

#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/thread_pool.h"
#include "dtrain/ops/cast.h"
#include "dtrain/optim/adam.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

using testing::BatchOf;
using testing::Golden;
using testing::GoldenBert;
using testing::GoldenBerts;
using testing::GoldenError;
using testing::IsKeyBias;
using testing::LargestMagnitude;

constexpr double kTolerance = ToleranceOf(DType::kFloat32);

// Elsewhere the work may be emulated: one way each is enough there.
bool OnCpu() { return testing::TestDevice().type == DeviceType::kCpu; }
std::vector<int> Threads() { return OnCpu() ? std::vector<int>{1, 2} : std::vector<int>{1}; }
std::vector<Recompute> Policies() {
  if (!OnCpu()) return {Recompute::kCheap};
  return {Recompute::kNone, Recompute::kCheap, Recompute::kEveryK, Recompute::kFull};
}

std::unique_ptr<BertClassifier> Load(const Golden& golden, const BertClassifierOptions& options) {
  auto model = std::make_unique<BertClassifier>(options);
  model->Allocate(testing::TestDevice(), DType::kFloat32, /*seed=*/1);
  testing::LoadGoldenWeights(golden, model->parameters());
  return model;
}

TEST_CASE("hidden states, logits and predictions are PyTorch's") {
  for (const GoldenBert& m : GoldenBerts()) {
    INFO(m.name);
    const Golden golden(m.name);
    const auto model = Load(golden, m.options);
    const ClassificationBatch batch = BatchOf(golden, m.options.bert.type_vocab_size != 1);
    Context ctx(testing::TestDevice());
    for (const int threads : Threads()) {
      SetNumThreads(threads);
      const std::string last = "activation.layer." + std::to_string(m.options.bert.num_layers - 1);
      CHECK(GoldenError(golden, last, model->Encode(batch, ctx)) < kTolerance);
      ClassificationOutputs outputs;
      const LossSums sums = model->Forward(batch, ctx, &outputs);
      CHECK(GoldenError(golden, "logits", outputs.logits) < kTolerance);
      CHECK(GoldenError(golden, "probabilities", outputs.probabilities) < kTolerance);
      CHECK(GoldenError(golden, "nll", outputs.losses) < kTolerance);
      CHECK(sums.tokens == batch.size());
      const double rows = static_cast<double>(batch.size());
      CHECK(sums.loss / rows == Approx(double{golden.Scalar("loss")}).epsilon(kTolerance));
    }
    SetNumThreads(1);
  }
}

TEST_CASE("all gradients are PyTorch's, whatever threads and recomputation") {
  for (const GoldenBert& m : GoldenBerts()) {
    const Golden golden(m.name);
    const ClassificationBatch batch = BatchOf(golden, m.options.bert.type_vocab_size != 1);
    for (const Recompute recompute : Policies()) {
      for (const int threads : Threads()) {
        INFO(m.name << ", recompute " << static_cast<int>(recompute) << ", threads " << threads);
        SetNumThreads(threads);
        const auto model = Load(golden, m.options);
        Context ctx(testing::TestDevice(), {.recompute = recompute, .recompute_every = 1});
        ctx.set_training(true);
        model->Forward(batch, ctx);
        model->Backward(ctx);
        Scale(model->parameters().gradients(), 1.0f / static_cast<float>(batch.size()),
              ctx.stream());
        for (Parameter* parameter : model->parameters().in_backward_order()) {
          INFO(parameter->name());
          if (IsKeyBias(parameter->name())) {
            CHECK(LargestMagnitude(parameter->gradient()) < 1e-6);
          } else {
            CHECK(GoldenError(golden, "grad." + parameter->name(), parameter->gradient()) <
                  kTolerance);
          }
        }
      }
    }
    SetNumThreads(1);
  }
}

TEST_CASE("ten updates of AdamW take losses and weights where PyTorch takes them") {
  for (const GoldenBert& m : GoldenBerts()) {
    if (!OnCpu() && m.name != "bert_value") continue;
    INFO(m.name);
    const Golden golden(m.name);
    const ClassificationBatch batch = BatchOf(golden, m.options.bert.type_vocab_size != 1);
    const auto model = Load(golden, m.options);
    Adam adam(model->parameters(),
              {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .weight_decay = 0.01f});
    Context ctx(testing::TestDevice());
    const double rows = static_cast<double>(batch.size());
    for (const double expected : golden.Doubles("train.losses")) {
      ctx.set_training(true);
      Zero(model->parameters().gradients(), ctx.stream());
      CHECK(model->Forward(batch, ctx).loss / rows == Approx(expected).epsilon(kTolerance));
      model->Backward(ctx);
      adam.Step(1e-3f, static_cast<float>(1.0 / rows), ctx.stream());
    }
    ctx.set_training(false);
    CHECK(model->Forward(batch, ctx).loss / rows ==
          Approx(double{golden.Scalar("train.final_loss")}).epsilon(kTolerance));
    for (Parameter* parameter : model->parameters().in_backward_order()) {
      if (IsKeyBias(parameter->name())) continue;
      INFO(parameter->name());
      CHECK(GoldenError(golden, "final." + parameter->name(), parameter->master()) < kTolerance);
    }
  }
}

TEST_CASE("the parameters are those of transformers, all of them") {
  for (const GoldenBert& m : GoldenBerts()) {
    const Golden golden(m.name);
    BertClassifier model(m.options);
    model.Allocate(testing::TestDevice(), DType::kFloat32, 1);
    testing::CheckSameNames(golden, model.parameters());
  }
}

}  // namespace
}  // namespace dtrain
