// bert_estimate_test.cc - estimates of question answering and pre-training against real arenas.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/classification.pb.h"
#include "dtrain/config/config.h"
#include "dtrain/device/arena.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/nn/frozen_parameters.h"
#include "dtrain/optim/adam.h"
#include "dtrain/pretrain.pb.h"
#include "dtrain/squad.pb.h"
#include "dtrain/tasks/pretraining/head_costs.h"
#include "dtrain/tasks/question_answering/head.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "planning/estimate.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/numbered_batch.h"
#include "testing/pretraining_batches.h"

namespace dtrain {
namespace {

constexpr int kTexts = 9;

template <typename Config>
Config Load(std::vector<std::string> overrides) {
  for (const char* small : {"model.num_layers=3", "model.hidden_size=32", "model.ffn_size=80",
                            "model.num_heads=4", "model.max_positions=90", "model.vocab_size=97",
                            "data.max_length=90", "run.device=cpu", "trainer.batch_size=9"}) {
    overrides.insert(overrides.begin(), small);
  }
  Config config;
  const Status loaded = LoadConfig({.files = {}, .overrides = overrides}, config);
  REQUIRE(std::string(loaded.message()) == "");
  return config;
}

template <typename Config>
Estimate Estimated(const Config& config, const EstimateOptions& options = {}) {
  const StatusOr<Estimate> estimate = EstimateRun(config, options);
  REQUIRE(std::string(estimate.status().message()) == "");
  return *estimate;
}

// A count of the micro-batch: "tokens", "texts".
int64_t Count(const Estimate& estimate, const std::string& name) {
  for (const auto& [key, count] : estimate.workload.micro_batch_counts) {
    if (key == name) return count;
  }
  return -1;
}

// The encoder of a configuration with all sizes.
template <typename Config>
BertOptions Encoder(const Config& config) {
  return EncoderOptionsOf(config.model());
}

double Bytes(const Tensor& tensor) { return tensor ? static_cast<double>(tensor.bytes()) : 0.0; }

// What a model that `make` makes of a configuration takes for a batch, in all modes of
// recomputation, and for an evaluation of the same.
template <typename Config, typename Outputs, typename Make, typename Batch>
void CheckArenas(const std::vector<std::string>& overrides, const Make& make, const Batch& batch) {
  const auto tokens = static_cast<double>(batch.sequences.tokens());
  for (const std::string precision : {"fp32", "bf16"}) {
    for (const std::string mode : {"none", "cheap", "every_k", "full"}) {
      INFO(precision << ' ' << mode);
      std::vector<std::string> all = overrides;
      all.insert(all.end(),
                 {"trainer.precision=" + precision, "trainer.recompute=" + mode,
                  "trainer.eval_batch_tokens=" + std::to_string(batch.sequences.tokens())});
      const auto config = Load<Config>(all);
      const Estimate estimate = Estimated(config, {.source_length = tokens / kTexts});
      CHECK(Count(estimate, "tokens") == batch.sequences.tokens());
      CHECK(Count(estimate, "texts") == kTexts);
      const auto model = make(config);
      ParameterSet& parameters = model->parameters();
      CHECK(estimate.workload.parameters.total() == parameters.num_elements());
      parameters.Allocate({}, estimate.workload.memory.context.compute_type, 1);
      CHECK(static_cast<double>(estimate.memory.weights) ==
            Approx(Bytes(parameters.weights())).epsilon(0.02));
      CHECK(static_cast<double>(estimate.memory.compute_copy) ==
            Approx(Bytes(parameters.compute_weights())).epsilon(0.02));
      Context context({}, BertContextOf(config.trainer(), 1, 0));
      context.set_training(true);
      model->Forward(testing::Numbered(batch), context);
      model->Backward(context);
      CHECK(static_cast<double>(estimate.memory.activations) ==
            Approx(static_cast<double>(context.activations().peak())).epsilon(0.01));
      Context evaluation({}, BertContextOf(config.trainer(), 1, 0));
      Outputs outputs;
      model->Forward(batch, evaluation, &outputs);
      CHECK(static_cast<double>(estimate.memory.evaluation) ==
            Approx(static_cast<double>(evaluation.activations().peak())).epsilon(0.01));
    }
  }
}

SpanBatch RandomWindows(const BertOptions& options) {
  const PretrainingBatch texts =
      testing::RandomMaskedTexts({.bert = options, .next_sentence = true}, 0, kTexts, 90, 5);
  SpanBatch batch;
  static_cast<PackedTexts&>(batch) = texts;
  batch.targets.assign(2 * kTexts, 1);
  for (int64_t i = 0; i < kTexts; ++i) batch.rows.push_back(i);
  return batch;
}

TEST_CASE("an estimate of question answering is what its arenas take") {
  const auto make = [](const proto::SquadConfig& config) {
    return std::make_unique<BertQuestionAnswering>(Encoder(config));
  };
  const BertOptions options = EncoderOptionsOf(Load<proto::SquadConfig>({}).model());
  CheckArenas<proto::SquadConfig, SpanScores>({"data.max_question=40"}, make,
                                              RandomWindows(options));
}

TEST_CASE("an estimate with adapters tells trained weights from frozen ones") {
  const auto precision = GENERATE(std::string("fp32"), "bf16");
  const SpanBatch batch = RandomWindows(EncoderOptionsOf(Load<proto::SquadConfig>({}).model()));
  const std::vector<std::string> common = {"data.max_question=40",
                                           "trainer.precision=" + precision};
  const auto estimate_of = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    return Estimated(Load<proto::SquadConfig>(more),
                     {.source_length = static_cast<double>(batch.sequences.tokens()) / kTexts});
  };
  const std::vector<std::string> lora = {"model.pretrained=/nowhere", "model.lora.rank=2",
                                         "model.lora.targets=all-linear"};
  const Estimate estimate = estimate_of(lora);
  std::vector<std::string> all = lora;
  all.insert(all.end(), common.begin(), common.end());
  const auto config = Load<proto::SquadConfig>(all);
  BertQuestionAnswering model(Encoder(config));
  ParameterSet& parameters = model.parameters();
  parameters.Allocate({}, estimate.workload.memory.context.compute_type, 1);
  CHECK(estimate.workload.parameters.total() == parameters.num_elements());
  const double trained = Bytes(parameters.weights());
  CHECK(static_cast<double>(estimate.memory.weights) ==
        Approx(trained + Bytes(FrozenOf(parameters).weights())).epsilon(0.02));
  CHECK(static_cast<double>(estimate.memory.gradients) == Approx(trained).epsilon(0.02));
  Adam adam(parameters, {});
  CHECK(static_cast<double>(estimate.memory.moments) ==
        Approx(Bytes(adam.first_moments()) + Bytes(adam.second_moments())).epsilon(0.02));
  double copies = 0.0;
  for (Parameter* parameter : parameters.all()) {
    if (parameter->value().raw() != parameter->master().raw()) copies += Bytes(parameter->value());
  }
  for (const LowRankAdapter& adapter : FrozenOf(parameters).adapters()) {
    copies += Bytes(adapter.scaled_a) + Bytes(adapter.scaled_b);
  }
  CHECK(static_cast<double>(estimate.memory.compute_copy) == Approx(copies).epsilon(0.02));
  Context context({}, BertContextOf(config.trainer(), 1, 0));
  context.set_training(true);
  model.Forward(testing::Numbered(batch), context);
  model.Backward(context);
  const auto peak = static_cast<int64_t>(context.activations().peak());
  CHECK(estimate.memory.activations >= peak);
  CHECK(estimate.memory.activations <= peak + peak / 50);
  // Most of the gradients of weights are not computed.
  const Estimate whole = estimate_of({});
  CHECK(estimate.model_flops < 0.8 * whole.model_flops);
  CHECK(estimate.model_flops > 0.66 * whole.model_flops);
}

TEST_CASE("an estimate of pre-training is what its arenas take") {
  for (const bool next_sentence : {true, false}) {
    const auto make = [&](const proto::PretrainConfig& config) {
      return std::make_unique<BertPretraining>(
          BertPretrainingOptions{.bert = Encoder(config), .next_sentence = next_sentence});
    };
    const BertPretrainingOptions options{
        .bert = EncoderOptionsOf(Load<proto::PretrainConfig>({}).model()),
        .next_sentence = next_sentence};
    // Every third token is masked.
    CheckArenas<proto::PretrainConfig, PretrainingOutputs>(
        {"data.masked_share=0.34", "data.max_predictions=30",
         next_sentence ? "data.next_sentence=true" : "data.next_sentence=false"},
        make, testing::RandomMaskedTexts(options, 0, kTexts, 90, 5));
  }
}

TEST_CASE(
    "texts of other lengths, more ranks and a known speed change an estimate as they should") {
  const auto config = Load<proto::SquadConfig>({"data.max_question=40"});
  const Estimate longest = Estimated(config);
  CHECK(Count(longest, "tokens") == 9 * 90);
  CHECK(longest.seconds_per_update == 0.0);
  const EstimateOptions shorter{.source_length = 50, .length_deviation = 10, .flops = 1e9};
  const Estimate estimate = Estimated(config, shorter);
  CHECK(Count(estimate, "tokens") == 9 * 50 + 4 * 10 * 3);
  CHECK(estimate.memory.activations < longest.memory.activations);
  CHECK(estimate.workload.tokens_per_batch == 9 * 50);
  CHECK(estimate.flops_per_update ==
        Approx(Estimated(config, {.source_length = 50}).flops_per_update));
  CHECK(estimate.seconds_per_update == Approx(estimate.flops_per_update / 1e9));
  EstimateOptions shared = shorter;
  shared.ranks = 3;
  CHECK(Count(Estimated(config, shared), "texts") == 3);
  CHECK(Estimated(config, shared).seconds_per_update == Approx(estimate.seconds_per_update / 3));
  CHECK(estimate.memory.workspace == 0);
  const Estimate on_gpu =
      Estimated(Load<proto::SquadConfig>({"data.max_question=40", "run.device=cuda"}));
  CHECK(on_gpu.memory.workspace == 128 << 20);
  CHECK(on_gpu.memory.total() ==
        on_gpu.memory.states() + on_gpu.memory.evaluation + on_gpu.memory.workspace);
  // What is computed again takes time too.
  const auto full = Load<proto::SquadConfig>({"data.max_question=40", "trainer.recompute=full"});
  const Estimate repeated = Estimated(full, shorter);
  CHECK(repeated.flops_per_update == estimate.flops_per_update);
  CHECK(repeated.seconds_per_update > 1.2 * estimate.seconds_per_update);
  CHECK(repeated.seconds_per_update < 1.34 * estimate.seconds_per_update);
}

TEST_CASE("an estimate counts an evaluation of more tokens than an update has") {
  const auto of_tokens = [](int64_t tokens) {
    return Estimated(Load<proto::SquadConfig>(
        {"data.max_question=40", "trainer.eval_batch_tokens=" + std::to_string(tokens)}));
  };
  const Estimate small = of_tokens(90);
  CHECK(small.memory.evaluation == of_tokens(1).memory.evaluation);  // one text, however long
  CHECK(small.memory.evaluation < small.memory.activations);
  CHECK(small.memory.total() == small.memory.states() + small.memory.activations);
  CHECK_THAT(EstimateText(small), !Catch::Contains("or evaluation"));
  const Estimate large = of_tokens(90 * 90);
  CHECK(large.memory.evaluation > large.memory.activations);
  CHECK(large.memory.total() == large.memory.states() + large.memory.evaluation);
  CHECK_THAT(EstimateText(large), Catch::Contains("or evaluation"));
}

TEST_CASE("an estimate counts what the options for slow networks keep, between several ranks") {
  const auto exchange = [](const std::string& override, int ranks) {
    return Estimated(Load<proto::SquadConfig>({"data.max_question=40", override}), {.ranks = ranks})
        .memory.exchange;
  };
  const ModelParameters counts =
      Estimated(Load<proto::SquadConfig>({"data.max_question=40"})).workload.parameters;
  const std::string bf16 = "trainer.wire_precision=bf16";
  CHECK(exchange("trainer.wire_precision=fp32", 2) == 0);
  CHECK(exchange(bf16, 1) == 0);
  CHECK(exchange(bf16, 2) == 2 * counts.total());
  CHECK(exchange("trainer.power_sgd_rank=4", 2) ==
        8 * (counts.attention + counts.feed_forward + counts.output));
  CHECK(exchange("trainer.sync_every=4", 2) == 24 * counts.total());
}

TEST_CASE("an estimate's time is that of the rank with the most texts") {
  const auto config = Load<proto::SquadConfig>({"data.max_question=40"});
  const double one = Estimated(config, {.flops = 1e9}).seconds_per_update;
  // Of 9 texts.
  for (const auto& [ranks, texts] : {std::pair(2, 5), std::pair(9, 1), std::pair(64, 1)}) {
    INFO(ranks << " ranks");
    CHECK(Estimated(config, {.ranks = ranks, .flops = 1e9}).seconds_per_update ==
          Approx(one * texts / 9));
  }
  const Estimate by_tokens =
      Estimated(Load<proto::SquadConfig>({"data.max_question=40", "trainer.tokens_per_batch=810"}),
                {.ranks = 64, .flops = 1e9});
  CHECK(by_tokens.seconds_per_update == Approx(by_tokens.flops_per_update / 64 / 1e9));
}

TEST_CASE("an estimate refuses what the program itself would refuse") {
  const auto refused = [](const auto& config) {
    const StatusOr<Estimate> estimate = EstimateRun(config, {});
    CHECK(estimate.status().code() == ExitCode::kUsage);
    return std::string(estimate.status().message());
  };
  CHECK_THAT(refused(Load<proto::SquadConfig>({"data.max_question=89"})),
             Catch::Contains("leaves no room for a context"));
  CHECK_THAT(refused(Load<proto::PretrainConfig>({"trainer.label_weights=1"})),
             Catch::Contains("trainer.label_weights weighs classes"));
  for (const std::string field : {"trainer.batch_size", "trainer.tokens_per_batch"}) {
    CHECK(refused(Load<proto::PretrainConfig>({field + "=9223372036854775807"})) ==
          field + " is 9223372036854775807; an estimate takes at most 4294967296");
  }
  CHECK_THAT(refused(Load<proto::PretrainConfig>({"model.num_heads=5"})),
             Catch::Contains("a multiple of model.num_heads (5)"));
}

TEST_CASE("an estimate takes the pretrained shapes that a run takes") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("config.json"), R"({"num_hidden_layers": 2, "hidden_size": 48,
      "num_attention_heads": 4, "type_vocab_size": 1, "vocab_size": 50})");
  const auto with = [&](const std::string& override) {
    return EstimateRun(Load<proto::PretrainConfig>({"model.pretrained=" + folder.path(), override}),
                       {});
  };
  const auto estimate = with("data.max_length=90");
  REQUIRE(std::string(estimate.status().message()) == "");
  const BertPretrainingOptions shape{.bert = {.vocab_size = 97,
                                              .hidden_size = 48,
                                              .num_layers = 2,
                                              .num_heads = 4,
                                              .ffn_size = 80,
                                              .max_positions = 90,
                                              .type_vocab_size = 1}};
  CHECK(estimate->workload.parameters.total() == CountParameters(shape).total());
  CHECK(with("model.num_heads=5").status().code() == ExitCode::kUsage);
  // A checkpoint's configuration is not that of a file which is checked when it is read.
  std::filesystem::remove(folder.File("config.json"));
  WriteTestFile(folder.File("config.textproto"), "model { hidden_size: 48 num_heads: 5 }");
  CHECK_THAT(std::string(with("data.max_length=90").status().message()),
             Catch::Contains("a multiple of model.num_heads (5)"));
}

TEST_CASE("an estimate of lengths that no text has is refused") {
  const auto config = Load<proto::SquadConfig>({"data.max_question=40"});
  const auto refusal = [&](double length, double deviation) {
    const auto estimate =
        EstimateRun(config, {.source_length = length, .length_deviation = deviation});
    CHECK(estimate.status().code() == ExitCode::kUsage);
    return std::string(estimate.status().message());
  };
  for (const double length : {91.0, 0.001, -1.0, 1e12, std::nan(""), HUGE_VAL}) {
    CHECK_THAT(refusal(length, 0.0), Catch::StartsWith("--source_length is ") &&
                                         Catch::Contains("1 to 90 (data.max_length)"));
  }
  for (const double deviation : {91.0, 1e18, -1.0, std::nan("")}) {
    CHECK_THAT(refusal(0.0, deviation), Catch::StartsWith("--length_deviation is ") &&
                                            Catch::Contains("0 to 90 (data.max_length)"));
  }
  CHECK(Count(Estimated(config, {.source_length = 90, .length_deviation = 90}), "tokens") ==
        9 * 90);
  CHECK(Count(Estimated(config, {.source_length = 1}), "tokens") == 9);

  proto::NmtConfig translation;
  REQUIRE(LoadConfig({.files = {}, .overrides = {"run.device=cpu"}}, translation).ok());
  const int64_t longest = translation.model().max_positions();
  for (const double length : {0.5, 1e12}) {
    const auto source = EstimateRun(translation, {.source_length = length});
    CHECK_THAT(std::string(source.status().message()), Catch::StartsWith("--source_length is "));
    const auto target = EstimateRun(translation, {.target_length = length});
    CHECK_THAT(std::string(target.status().message()), Catch::StartsWith("--target_length is "));
  }
  CHECK(EstimateRun(translation, {.source_length = static_cast<double>(longest)}).ok());
}

TEST_CASE("an estimate refuses the lengths that are another program's") {
  const auto target =
      EstimateRun(Load<proto::SquadConfig>({"data.max_question=40"}), {.target_length = 20});
  CHECK(std::string(target.status().message()) ==
        "--target_length is of nmt_train's sentences; use --source_length");
  proto::NmtConfig translation;
  REQUIRE(LoadConfig({.files = {}, .overrides = {"run.device=cpu"}}, translation).ok());
  const auto deviation = EstimateRun(translation, {.length_deviation = 5});
  CHECK(std::string(deviation.status().message()) ==
        "--length_deviation is of a BERT's texts, not of nmt_train's sentences");
}

TEST_CASE("an estimate counts the outputs of Jigsaw's labels") {
  const auto outputs = [](const std::string& override) {
    const auto estimate =
        Estimated(Load<proto::ClassificationConfig>({"data.jigsaw=true", override}))
            .workload.parameters.total();
    return (estimate - Estimated(Load<proto::ClassificationConfig>({"data.labels=value"}))
                           .workload.parameters.total()) /
               (32 + 1) +
           1;
  };
  CHECK(outputs("data.jigsaw_auxiliary=false") == 1);
  CHECK(outputs("data.jigsaw_auxiliary=true") == 7);
}

TEST_CASE("the text and the JSON of an estimate say whose it is and of what") {
  const Estimate estimate =
      Estimated(Load<proto::SquadConfig>({"data.max_question=40"}), {.flops = 1e9});
  CHECK_THAT(EstimateText(estimate),
             Catch::Contains(" bert_squad\n") &&
                 Catch::Contains("activations of 9 windows of 810 tokens") &&
                 Catch::Contains("its time"));
  const nlohmann::json json = nlohmann::json::parse(EstimateJson(estimate));
  CHECK(json.at("program") == "bert_squad");
  CHECK(json.at("seconds_per_update") == estimate.seconds_per_update);
  CHECK(json.at("bytes").at("activations") == estimate.plan.recompute.peak_bytes);
  CHECK(json.at("notes").empty());
  CHECK_THAT(EstimateText(Estimated(Load<proto::PretrainConfig>({}))),
             Catch::Contains(" bert_pretrain\n") && Catch::Contains("activations of 9 examples"));
}

}  // namespace
}  // namespace dtrain
