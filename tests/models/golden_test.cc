// golden_test.cc - whole models against PyTorch: outputs, losses, gradients, translations.
// SPDX-License-Identifier: Apache-2.0
#include "testing/golden.h"

#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/thread_pool.h"
#include "dtrain/models/beam_search.h"
#include "dtrain/ops/cast.h"
#include "dtrain/optim/adam.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

using testing::Golden;
using testing::GoldenError;
using testing::LargestMagnitude;

constexpr double kTolerance = ToleranceOf(DType::kFloat32);

std::unique_ptr<Seq2SeqTransformer> Load(const Golden& golden, const Seq2SeqOptions& options) {
  auto model = std::make_unique<Seq2SeqTransformer>(options);
  model->Allocate(testing::TestDevice(), DType::kFloat32, /*seed=*/1);
  testing::LoadGoldenWeights(golden, model->parameters());
  return model;
}

bool IsKeyBias(const std::string& name) { return name.ends_with("k_proj.bias"); }

void CheckGradients(const Golden& golden, ParameterSet& parameters) {
  for (Parameter* parameter : parameters.in_backward_order()) {
    INFO(parameter->name());
    if (IsKeyBias(parameter->name())) {
      // Zero but for rounding: a constant added to all keys leaves the softmax as it is.
      CHECK(LargestMagnitude(parameter->gradient()) < 1e-6);
    } else {
      CHECK(GoldenError(golden, "grad." + parameter->name(), parameter->gradient()) < kTolerance);
    }
  }
}

TEST_CASE("logits and encoder output are PyTorch's") {
  for (const testing::GoldenModel& m : testing::GoldenModels()) {
    INFO(m.name);
    const Golden golden(m.name);
    const auto model = Load(golden, m.options);
    Context ctx(testing::TestDevice());
    const TranslationBatch batch = golden.Batch();
    for (const int threads : {1, 2}) {
      SetNumThreads(threads);
      const Tensor memory = model->Encode(batch.source_ids, batch.source, ctx);
      CHECK(GoldenError(golden, "activation.encoder.output", memory) < kTolerance);
      const Tensor hidden = model->Decode(batch, memory, ctx);
      CHECK(GoldenError(golden, "activation.decoder.output", hidden) < kTolerance);
      CHECK(GoldenError(golden, "logits", model->Logits(batch, ctx)) < kTolerance);
    }
    SetNumThreads(1);
  }
}

TEST_CASE("losses and all gradients are PyTorch's, whatever threads and recomputation") {
  for (const testing::GoldenModel& m : testing::GoldenModels()) {
    const Golden golden(m.name);
    const TranslationBatch batch = golden.Batch();
    for (const Recompute recompute :
         {Recompute::kNone, Recompute::kCheap, Recompute::kEveryK, Recompute::kFull}) {
      for (const int threads : {1, 2}) {
        INFO(m.name << ", recompute " << static_cast<int>(recompute) << ", threads " << threads);
        SetNumThreads(threads);
        const auto model = Load(golden, m.options);
        Context ctx(testing::TestDevice(), {.recompute = recompute});
        ctx.set_training(true);
        const LossSums sums = model->Forward(batch, ctx);
        model->Backward(ctx);
        Scale(model->parameters().gradients(), 1.0f / static_cast<float>(batch.target.tokens()),
              ctx.stream());
        CHECK(sums.tokens == batch.target.tokens());
        CHECK(sums.loss == Approx(double{golden.Scalar("loss_sum")}).epsilon(kTolerance));
        CHECK(sums.nll == Approx(double{golden.Scalar("nll_sum")}).epsilon(kTolerance));
        CheckGradients(golden, model->parameters());
      }
    }
    SetNumThreads(1);
  }
}

TEST_CASE("ten updates of Adam take the losses and weights where PyTorch takes them") {
  for (const testing::GoldenModel& m : testing::GoldenModels()) {
    INFO(m.name);
    const Golden golden(m.name);
    const TranslationBatch batch = golden.Batch();
    const auto model = Load(golden, m.options);
    Adam adam(model->parameters(), {.beta1 = 0.9f, .beta2 = 0.98f, .epsilon = 1e-9f});
    Context ctx(testing::TestDevice());
    const auto tokens = static_cast<double>(batch.target.tokens());
    for (const double expected : golden.Doubles("train.losses")) {
      ctx.set_training(true);
      Zero(model->parameters().gradients(), ctx.stream());
      CHECK(model->Forward(batch, ctx).loss / tokens == Approx(expected).epsilon(kTolerance));
      model->Backward(ctx);
      adam.Step(1e-3f, static_cast<float>(1.0 / tokens), ctx.stream());
    }
    ctx.set_training(false);
    CHECK(model->Forward(batch, ctx).loss / tokens ==
          Approx(double{golden.Scalar("train.final_loss")}).epsilon(kTolerance));
    for (Parameter* parameter : model->parameters().in_backward_order()) {
      if (IsKeyBias(parameter->name())) continue;
      INFO(parameter->name());
      CHECK(GoldenError(golden, "final." + parameter->name(), parameter->master()) < kTolerance);
    }
  }
}

std::vector<std::vector<int32_t>> Lists(const Golden& golden, const std::string& name) {
  const std::vector<int32_t> ids = golden.Ints(name + ".ids");
  const std::vector<int32_t> offsets = golden.Ints(name + ".offsets");
  std::vector<std::vector<int32_t>> lists;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    lists.emplace_back(ids.begin() + offsets[i], ids.begin() + offsets[i + 1]);
  }
  return lists;
}

// Source 1 is the end symbol alone: BeamSearch() translates it to nothing without a search.
constexpr size_t kEmptySource = 1;

TEST_CASE("a beam of one is greedy decoding as in transformers") {
  const Golden golden("marian_tiny");
  const auto model = Load(golden, testing::MarianTinyOptions());
  Context ctx(testing::TestDevice());
  const auto sources = Lists(golden, "source");
  const auto expected = Lists(golden, "greedy");
  const auto results = BeamSearch(*model, sources, {.beam_size = 1, .end_id = 2}, ctx);
  for (size_t i = 0; i < sources.size(); ++i) {
    if (i == kEmptySource) continue;
    INFO("source " << i);
    std::vector<int32_t> ids = results[i].at(0).ids;
    ids.push_back(2);
    CHECK(ids == expected[i]);
  }
}

TEST_CASE("without length penalty the four best translations are those of transformers") {
  const Golden golden("marian_tiny");
  const auto model = Load(golden, testing::MarianTinyOptions());
  Context ctx(testing::TestDevice());
  const auto sources = Lists(golden, "source");
  const auto expected = Lists(golden, "beam.sum");
  const std::vector<float> scores = golden.Floats("beam.sum.scores");
  const auto results = BeamSearch(
      *model, sources,
      {.beam_size = 4, .alpha = 0.0f, .extra_length = 20, .n_best = 4, .end_id = 2}, ctx);
  for (size_t i = 0; i < sources.size(); ++i) {
    if (i == kEmptySource) continue;
    REQUIRE(results[i].size() == 4);
    for (size_t n = 0; n < 4; ++n) {
      INFO("source " << i << ", translation " << n);
      std::vector<int32_t> ids = results[i][n].ids;
      ids.push_back(2);
      CHECK(ids == expected[4 * i + n]);
      CHECK(results[i][n].score == Approx(scores[4 * i + n]).epsilon(1e-4));
    }
  }
}

}  // namespace
}  // namespace dtrain
