// head_test.cc - guesses, losses and gradients against PyTorch; batches in parts.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/head.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/arena.h"
#include "dtrain/nn/embedding.h"
#include "dtrain/ops/cast.h"
#include "testing/bert_golden.h"
#include "testing/catch.h"
#include "testing/golden.h"
#include "testing/pretraining_batches.h"

namespace dtrain {
namespace {

using testing::Golden;
using testing::GoldenError;
using testing::LargestMagnitude;

constexpr double kTolerance = ToleranceOf(DType::kFloat32);

// Elsewhere the work may be emulated: one way each is enough there.
bool OnCpu() { return testing::TestDevice().type == DeviceType::kCpu; }
std::vector<int> Threads() { return OnCpu() ? std::vector<int>{1, 2} : std::vector<int>{1}; }
std::vector<Recompute> Policies() {
  if (!OnCpu()) return {Recompute::kCheap};
  return {Recompute::kNone, Recompute::kCheap, Recompute::kEveryK, Recompute::kFull};
}

struct GoldenModel {
  std::string name;
  BertPretrainingOptions options;
};

std::vector<GoldenModel> Models() {
  const BertPretrainingOptions pairs{.bert = {.vocab_size = 67,
                                              .hidden_size = 24,
                                              .num_layers = 2,
                                              .num_heads = 3,
                                              .ffn_size = 40,
                                              .max_positions = 32,
                                              .dropout = 0.0f,
                                              .attention_dropout = 0.0f}};
  BertPretrainingOptions singles = pairs;
  singles.bert.hidden_size = 16;
  singles.bert.num_layers = 1;
  singles.bert.num_heads = 2;
  singles.bert.ffn_size = 24;
  singles.bert.activation = Activation::kGeluTanh;
  singles.next_sentence = false;
  std::vector<GoldenModel> models = {{"bert_pretraining", pairs}, {"bert_masked", singles}};
  for (const BertOptions& relative : testing::GoldenRelatives()) {
    models.push_back({std::string(relative.family->name) + "_masked",
                      {.bert = relative, .next_sentence = false}});
  }
  return models;
}

std::unique_ptr<BertPretraining> Load(const GoldenModel& m, const Golden& golden) {
  auto model = std::make_unique<BertPretraining>(m.options);
  model->Allocate(testing::TestDevice(), DType::kFloat32, /*seed=*/1);
  testing::LoadGoldenWeights(golden, model->parameters());
  return model;
}

PretrainingBatch PretrainingBatchOf(const Golden& golden, bool types) {
  PretrainingBatch batch;
  batch.token_ids = golden.Ints("token.ids");
  batch.type_ids = golden.Ints("type.ids");
  if (!types) std::ranges::fill(batch.type_ids, 0);
  batch.sequences = Sequences(golden.Ints("offsets"));
  batch.position_ids = PositionsOf(batch.sequences);
  batch.masked_rows = golden.Ints("masked.rows");
  batch.masked_ids = golden.Ints("masked.ids");
  if (golden.Has("next_labels")) {
    batch.next_labels = golden.Floats("next_labels");
    batch.next_weights.assign(batch.next_labels.size(), static_cast<float>(batch.masked()) /
                                                            static_cast<float>(batch.size()));
  }
  return batch;
}

TEST_CASE("guesses and losses are PyTorch's") {
  for (const GoldenModel& m : Models()) {
    INFO(m.name);
    const Golden golden(m.name);
    const auto model = Load(m, golden);
    const PretrainingBatch batch = PretrainingBatchOf(golden, m.options.bert.type_vocab_size != 1);
    Context ctx(testing::TestDevice());
    PretrainingOutputs outputs;
    const LossSums sums = model->Forward(batch, ctx, &outputs);
    CHECK(sums.tokens == batch.masked());
    CHECK(sums.nll == Approx(double{golden.Scalar("nll")}).epsilon(kTolerance));
    CHECK(sums.loss / static_cast<double>(sums.tokens) ==
          Approx(double{golden.Scalar("loss")}).epsilon(kTolerance));
    CHECK(outputs.predictions == golden.Ints("predictions"));
    CHECK(outputs.next_losses.empty() == !m.options.next_sentence);
    if (!m.options.next_sentence) continue;
    CHECK(GoldenError(golden, "next_probabilities", outputs.next_probabilities) < kTolerance);
    CHECK(GoldenError(golden, "next_nll", outputs.next_losses) < kTolerance);
  }
}

TEST_CASE("all gradients of pre-training are PyTorch's, whatever threads and recomputation") {
  for (const GoldenModel& m : Models()) {
    const Golden golden(m.name);
    const PretrainingBatch batch = PretrainingBatchOf(golden, m.options.bert.type_vocab_size != 1);
    for (const Recompute recompute : Policies()) {
      for (const int threads : Threads()) {
        INFO(m.name << ", recompute " << static_cast<int>(recompute) << ", threads " << threads);
        SetNumThreads(threads);
        const auto model = Load(m, golden);
        Context ctx(testing::TestDevice(), {.recompute = recompute, .recompute_every = 1});
        ctx.set_training(true);
        model->Forward(batch, ctx);
        model->Backward(ctx);
        Scale(model->parameters().gradients(), 1.0f / static_cast<float>(batch.masked()),
              ctx.stream());
        CHECK(ctx.activations().used() == 0);
        for (Parameter* parameter : model->parameters().in_backward_order()) {
          INFO(parameter->name());
          // A constant added to all keys leaves the softmax as it is: nothing but rounding.
          if (testing::IsKeyBias(parameter->name())) {
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

TEST_CASE("the parameters of pre-training are those of transformers, all of them") {
  for (const GoldenModel& m : Models()) {
    const Golden golden(m.name);
    BertPretraining model(m.options);
    model.Allocate(testing::TestDevice(), DType::kFloat32, 1);
    testing::CheckSameNames(golden, model.parameters());
  }
}

// Every parameter becomes ready once in each backward, the shared words last of all that add to
// them.
TEST_CASE("each gradient is reported ready once, when nothing more is added to it") {
  const BertPretrainingOptions options = Models()[0].options;
  BertPretraining model(options);
  model.Allocate(testing::TestDevice(), DType::kFloat32, 1);
  std::vector<std::string> ready;
  std::vector<std::vector<float>> gradients;
  model.parameters().SetReadyListener([&](const Parameter& parameter) {
    ready.push_back(parameter.name());
    Parameter* const own = model.parameters().Find(parameter.name());
    gradients.push_back(testing::ElementsOf<float>(own->gradient()));
  });
  Context ctx(testing::TestDevice());
  ctx.set_training(true);
  model.Forward(testing::RandomMaskedTexts(options, 0, 5, 20, 1), ctx);
  model.Backward(ctx);
  const size_t count = model.parameters().in_backward_order().size();
  REQUIRE(ready.size() == count);
  CHECK(ready.back() == "bert.embeddings.word_embeddings.weight");
  for (size_t i = 0; i < count; ++i) {
    INFO(ready[i]);
    CHECK(std::count(ready.begin(), ready.end(), ready[i]) == 1);
    CHECK(gradients[i] ==
          testing::ElementsOf<float>(model.parameters().Find(ready[i])->gradient()));
  }
  // An empty micro-batch.
  ready.clear();
  const Tensor before = model.parameters().gradients();
  const std::vector<float> sum = testing::ElementsOf<float>(before);
  CHECK(model.Forward(PretrainingBatch(), ctx).tokens == 0);
  model.Backward(ctx);
  CHECK(ready.size() == count);
  CHECK(testing::ElementsOf<float>(before) == sum);
}

TEST_CASE("parts of a batch add up to it") {
  for (const bool next_sentence : {true, false}) {
    BertPretrainingOptions options = Models()[0].options;
    options.next_sentence = next_sentence;
    const auto run = [&](const std::vector<int64_t>& cuts, std::vector<float>& gradients) {
      BertPretraining model(options);
      model.Allocate(testing::TestDevice(), DType::kFloat32, 1);
      Context ctx(testing::TestDevice());
      ctx.set_training(true);
      LossSums sums;
      for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        sums += model.Forward(
            testing::RandomMaskedTexts(options, cuts[i], cuts[i + 1], 20, 1, 2.5f), ctx);
        model.Backward(ctx);
      }
      gradients = testing::ElementsOf<float>(model.parameters().gradients());
      return sums;
    };
    std::vector<float> whole, parts;
    const LossSums of_whole = run({0, 9}, whole);
    const LossSums of_parts = run({0, 2, 2, 9}, parts);
    CHECK(of_parts.loss == Approx(of_whole.loss).epsilon(1e-6));
    CHECK(of_parts.nll == Approx(of_whole.nll).epsilon(1e-6));
    CHECK(of_parts.tokens == of_whole.tokens);
    CHECK(RelativeError(std::span<const float>(parts),
                        std::vector<double>(whole.begin(), whole.end())) < kTolerance);
    CHECK((of_whole.loss > of_whole.nll) == next_sentence);
  }
}

TEST_CASE("batches of pairs and of single texts are not mixed up") {
  BertPretrainingOptions options = Models()[0].options;
  const PretrainingBatch pairs = testing::RandomMaskedTexts(options, 0, 2, 20, 1);
  options.next_sentence = false;
  BertPretraining model(options);
  model.Allocate(testing::TestDevice(), DType::kFloat32, 1);
  Context ctx(testing::TestDevice());
  CHECK_THROWS(model.Forward(pairs, ctx));
}

TEST_CASE("the head's activation is that of the layers only where transformers' class has it so") {
  BertOptions options{.activation = Activation::kRelu};
  for (const EncoderFamily* family : {&BertFamily(), &DistilBertFamily()}) {
    options.family = family;
    CHECK(MaskedWordsTransformOf(options).activation == Activation::kRelu);
  }
  for (const EncoderFamily* family :
       {&ElectraFamily(), &ModernBertFamily(), &RobertaFamily(), &XlmRobertaFamily()}) {
    options.family = family;
    CHECK(MaskedWordsTransformOf(options).activation == Activation::kGeluErf);
  }
}

}  // namespace
}  // namespace dtrain
