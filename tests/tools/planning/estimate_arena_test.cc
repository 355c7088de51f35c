// estimate_arena_test.cc - what `dtrain estimate` predicts for the presets against real arenas.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "dtrain/classification.pb.h"
#include "dtrain/config/config.h"
#include "dtrain/device/arena.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/optim/adam.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/translation/options.h"
#include "planning/estimate.h"
#include "testing/catch.h"
#include "testing/classification_batches.h"
#include "testing/numbered_batch.h"
#include "testing/tests_directory.h"
#include "testing/translation_batches.h"

namespace dtrain {
namespace {

// The most an estimate may be off.
constexpr double kTolerance = 0.05;

template <typename Config>
Config Preset(const std::string& program, const std::string& name,
              std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {"run.device=cpu", "data.max_length=12"});
  Config config;
  const std::string file = testing::PresetsDirectory(program) + "/" + name + ".textproto";
  const Status loaded = LoadConfig({.files = {file}, .overrides = overrides}, config);
  REQUIRE(std::string(loaded.message()) == "");
  return config;
}

int64_t BytesOf(const Tensor& tensor) { return tensor ? static_cast<int64_t>(tensor.bytes()) : 0; }

bool IsWithin(int64_t predicted, int64_t real) {
  INFO("predicted " << predicted << ", real " << real);
  return std::abs(static_cast<double>(predicted - real)) <= kTolerance * static_cast<double>(real);
}

// Of what a model has whose parameters are allocated.
void CheckStates(const Estimate& estimate, ParameterSet& parameters) {
  CHECK(IsWithin(estimate.memory.weights, BytesOf(parameters.weights())));
  CHECK(IsWithin(estimate.memory.gradients, BytesOf(parameters.gradients())));
  CHECK(IsWithin(estimate.memory.compute_copy + 1, BytesOf(parameters.compute_weights()) + 1));
  CHECK(estimate.memory.moments == 2 * estimate.memory.weights);
}

// One model of the preset's size, trained for a few tokens in every recompute mode.
void CheckPreset(const std::string& name, const std::string& precision) {
  const std::string type = "trainer.precision=" + precision;
  const auto config = Preset<proto::NmtConfig>("nmt_train", name, {type});
  const StatusOr<Estimate> states = EstimateRun(config, {});
  REQUIRE(states.ok());
  Seq2SeqOptions options = ModelOptionsOf(config.model());
  options.vocab_size = states->workload.vocab_size;
  Seq2SeqTransformer model(options);
  model.Allocate({}, states->workload.memory.context.compute_type, 1);
  CheckStates(*states, model.parameters());
  const auto pairs = testing::RandomPairs(6, 12, options.vocab_size, 5);
  const TranslationBatch batch = testing::Pack(pairs, 0, pairs.size(), options.pad_id());
  const auto length_of = [](const Sequences& s) {
    return static_cast<double>(s.tokens()) / static_cast<double>(s.count());
  };
  const std::string tokens = std::to_string(batch.target.tokens());
  for (const char* mode : {"none", "cheap", "every_k", "full"}) {
    INFO(name << ' ' << precision << ' ' << mode);
    const auto small = Preset<proto::NmtConfig>(
        "nmt_train", name,
        {type, std::string("trainer.recompute=") + mode, "trainer.tokens_per_batch=" + tokens,
         "trainer.micro_batch_tokens=" + tokens});
    const StatusOr<Estimate> estimate = EstimateRun(
        small,
        {.source_length = length_of(batch.source), .target_length = length_of(batch.target)});
    REQUIRE(std::string(estimate.status().message()) == "");
    CHECK(estimate->workload.micro_batch_counts[1] ==
          std::pair(std::string("target_tokens"), batch.target.tokens()));
    Context context({}, ContextOptionsOf(small.trainer(), 0));
    context.set_training(true);
    model.Forward(testing::Numbered(batch), context);
    model.Backward(context);
    CHECK(
        IsWithin(estimate->memory.activations, static_cast<int64_t>(context.activations().peak())));
  }
}

// The same of a classifier.
void CheckClassifier(const std::string& name, const std::string& precision) {
  const std::string type = "trainer.precision=" + precision;
  const auto config = Preset<proto::ClassificationConfig>("bert_classify", name, {type});
  const StatusOr<Estimate> states = EstimateRun(config, {});
  REQUIRE(std::string(states.status().message()) == "");
  BertClassifierOptions options{.bert = EncoderOptionsOf(config.model())};
  options.bert.vocab_size = states->workload.vocab_size;
  BertClassifier model(options);
  model.Allocate({}, states->workload.memory.context.compute_type, 1);
  CheckStates(*states, model.parameters());
  const ClassificationBatch batch = testing::RandomRows(options, 0, 6, 12, 5);
  const std::string texts = std::to_string(batch.size());
  for (const char* mode : {"none", "cheap", "every_k", "full"}) {
    INFO(name << ' ' << precision << ' ' << mode);
    const auto small = Preset<proto::ClassificationConfig>(
        "bert_classify", name,
        {type, std::string("trainer.recompute=") + mode, "trainer.batch_size=" + texts});
    const StatusOr<Estimate> estimate =
        EstimateRun(small, {.source_length = static_cast<double>(batch.sequences.tokens()) /
                                             static_cast<double>(batch.size())});
    REQUIRE(std::string(estimate.status().message()) == "");
    CHECK(estimate->workload.micro_batch_counts[0] ==
          std::pair(std::string("tokens"), batch.sequences.tokens()));
    Context context({}, BertContextOf(small.trainer(), 1, 0));
    context.set_training(true);
    model.Forward(testing::Numbered(batch), context);
    model.Backward(context);
    CHECK(
        IsWithin(estimate->memory.activations, static_cast<int64_t>(context.activations().peak())));
  }
}

TEST_CASE("an estimate of the base preset is within 5 % of the arenas in all recompute modes") {
  CheckPreset("base", "fp32");
}

TEST_CASE("an estimate of the big preset is within 5 % of the arenas in all recompute modes") {
  CheckPreset("big", "bf16");
}

TEST_CASE("an estimate of BERT base is within 5 % of the arenas in all recompute modes") {
  CheckClassifier("base", "fp32");
}

TEST_CASE("an estimate of BERT large is within 5 % of the arenas in all recompute modes") {
  CheckClassifier("large", "bf16");
}

}  // namespace
}  // namespace dtrain
