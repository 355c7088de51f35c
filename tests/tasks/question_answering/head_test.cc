// head_test.cc - scores, losses and gradients against PyTorch, and memory.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/head.h"

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/arena.h"
#include "dtrain/nn/embedding.h"
#include "dtrain/ops/cast.h"
#include "dtrain/tasks/question_answering/head_costs.h"
#include "testing/catch.h"
#include "testing/golden.h"
#include "testing/numbered_batch.h"
#include "testing/test_device.h"

namespace dtrain {
namespace {

using testing::Golden;
using testing::GoldenError;
using testing::LargestMagnitude;

constexpr double kTolerance = ToleranceOf(DType::kFloat32);

// Elsewhere the work may be emulated: one way each is enough there.
bool OnCpu() { return testing::TestDevice().type == DeviceType::kCpu; }

BertOptions GoldenOptions() {
  return {.vocab_size = 67,
          .hidden_size = 24,
          .num_layers = 2,
          .num_heads = 3,
          .ffn_size = 40,
          .max_positions = 32,
          .dropout = 0.0f,
          .attention_dropout = 0.0f};
}

std::unique_ptr<BertQuestionAnswering> Fresh(const BertOptions& options,
                                             DType type = DType::kFloat32) {
  auto model = std::make_unique<BertQuestionAnswering>(options);
  model->Allocate(testing::TestDevice(), type, /*seed=*/3);
  return model;
}

std::unique_ptr<BertQuestionAnswering> Load(const Golden& golden) {
  auto model = Fresh(GoldenOptions());
  testing::LoadGoldenWeights(golden, model->parameters());
  return model;
}

SpanBatch BatchOf(const Golden& golden) {
  SpanBatch batch;
  batch.token_ids = golden.Ints("token.ids");
  batch.type_ids = golden.Ints("type.ids");
  batch.sequences = Sequences(golden.Ints("offsets"));
  batch.position_ids = PositionsOf(batch.sequences);
  batch.targets = golden.Ints("targets");
  for (int64_t s = 0; s < batch.sequences.count(); ++s) batch.rows.push_back(s);
  return batch;
}

// What adds the same to all scores of a softmax changes nothing: PyTorch has rounding alone there.
bool OnlyShiftsScores(const std::string& name) {
  return name.ends_with("self.key.bias") || name == "qa_outputs.bias" ||
         name == "bert.encoder.layer.1.output.LayerNorm.bias";
}

TEST_CASE("scores and losses of answers are PyTorch's") {
  const Golden golden("bert_questions");
  const auto model = Load(golden);
  const SpanBatch batch = BatchOf(golden);
  Context ctx(testing::TestDevice());
  SpanScores scores;
  const LossSums sums = model->Forward(batch, ctx, &scores);
  CHECK(GoldenError(golden, "start", scores.start) < kTolerance);
  CHECK(GoldenError(golden, "end", scores.end) < kTolerance);
  CHECK(sums.tokens == batch.size());
  CHECK(sums.loss / static_cast<double>(sums.tokens) ==
        Approx(double{golden.Scalar("loss")}).epsilon(kTolerance));
  CHECK(sums.nll == sums.loss);
  REQUIRE(scores.losses.size() == static_cast<size_t>(batch.size()));
  CHECK(std::accumulate(scores.losses.begin(), scores.losses.end(), 0.0) ==
        Approx(sums.loss).epsilon(kTolerance));
}

TEST_CASE("gradients of question answering are PyTorch's, whatever threads and recomputation") {
  const Golden golden("bert_questions");
  const SpanBatch batch = BatchOf(golden);
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    for (const int threads : OnCpu() ? std::vector<int>{1, 2} : std::vector<int>{1}) {
      INFO("recompute " << static_cast<int>(recompute) << ", threads " << threads);
      SetNumThreads(threads);
      const auto model = Load(golden);
      Context ctx(testing::TestDevice(), {.recompute = recompute});
      ctx.set_training(true);
      model->Forward(batch, ctx);
      model->Backward(ctx);
      Scale(model->parameters().gradients(), 1.0f / static_cast<float>(batch.size()), ctx.stream());
      CHECK(ctx.activations().used() == 0);
      for (Parameter* parameter : model->parameters().in_backward_order()) {
        const std::string& name = parameter->name();
        INFO(name);
        if (OnlyShiftsScores(name)) {
          CHECK(LargestMagnitude(parameter->gradient()) < 1e-6);
        } else {
          CHECK(GoldenError(golden, "grad." + name, parameter->gradient()) < kTolerance);
        }
      }
    }
  }
  SetNumThreads(1);
}

TEST_CASE("the scores of a row do not depend on the others of its batch") {
  const Golden golden("bert_questions");
  const auto model = Load(golden);
  const SpanBatch all = BatchOf(golden);
  Context ctx(testing::TestDevice());
  SpanScores expected;
  model->Forward(all, ctx, &expected);
  const int32_t begin = all.sequences.begin(3);
  const int32_t length = all.sequences.length(3);
  const auto part = [&](const std::vector<int32_t>& values) {
    return std::vector<int32_t>(values.begin() + begin, values.begin() + begin + length);
  };
  SpanBatch one;
  one.token_ids = part(all.token_ids);
  one.type_ids = part(all.type_ids);
  one.position_ids = part(all.position_ids);
  one.sequences = Sequences({0, length});
  one.targets = {-1, -1};
  one.rows = {3};
  SpanScores scores;
  const LossSums sums = model->Forward(one, ctx, &scores);
  CHECK(sums.loss == 0.0);
  const auto same = [&](const std::vector<float>& ours, const std::vector<float>& theirs) {
    for (size_t t = 0; t < ours.size(); ++t) {
      CHECK(ours[t] == Approx(theirs[static_cast<size_t>(begin) + t]).epsilon(1e-4).margin(1e-5));
    }
  };
  CHECK(scores.start.size() == static_cast<size_t>(length));
  same(scores.start, expected.start);
  same(scores.end, expected.end);
}

TEST_CASE("a rank without windows has gradients that are ready, and none of them changed") {
  const auto model = Fresh(GoldenOptions());
  Context ctx(testing::TestDevice());
  ctx.set_training(true);
  const LossSums sums = model->Forward(SpanBatch(), ctx);
  CHECK(sums.tokens == 0);
  model->Backward(ctx);
  CHECK(LargestMagnitude(model->parameters().gradients()) == 0.0);
}

TEST_CASE("counted activations and parameters of question answering are the real ones") {
  const Golden golden("bert_questions");
  const SpanBatch batch = BatchOf(golden);
  const BertBatch counted{.tokens = batch.sequences.tokens(), .texts = batch.size()};
  BertOptions options = GoldenOptions();
  if (GENERATE(false, true)) {
    options.family = &ModernBertFamily();
    options.type_vocab_size = 0;
  }
  INFO(options.family->title);
  for (const float dropout : {0.0f, 0.1f}) {
    options.dropout = dropout;
    const ModelCosts costs = CostsOfQuestionAnswering(options, counted);
    CHECK(costs.parameters == BertQuestionAnswering(options).parameters().num_elements());
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      for (const Recompute recompute : {Recompute::kNone, Recompute::kCheap, Recompute::kFull}) {
        INFO("dropout " << dropout << ", " << Name(type) << ", recompute "
                        << static_cast<int>(recompute));
        const auto model = Fresh(options, type);
        Context ctx(testing::TestDevice(), {.compute_type = type, .recompute = recompute});
        ctx.set_training(true);
        model->Forward(testing::Numbered(batch), ctx);
        model->Backward(ctx);
        CHECK(costs.peak_bytes({.compute_type = type,
                                .recompute = recompute,
                                .device = testing::TestDevice().type}) ==
              static_cast<int64_t>(ctx.activations().peak()));
      }
    }
  }
}

}  // namespace
}  // namespace dtrain
