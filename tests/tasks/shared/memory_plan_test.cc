// memory_plan_test.cc - what runs plan and estimate from a configuration, against real tensors.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/memory_plan.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/classification.pb.h"
#include "dtrain/config/config.h"
#include "dtrain/device/with_cuda.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/optim/adam.h"
#include "dtrain/tasks/classification/config.h"
#include "dtrain/tasks/classification/head_costs.h"
#include "dtrain/tasks/shared/bert_memory.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/translation/memory_plan.h"
#include "dtrain/tasks/translation/options.h"
#include "planning/estimate.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

proto::NmtConfig ConfigOf(std::vector<std::string> overrides) {
  for (const char* small : {"model.hidden_size=64", "model.ffn_size=128", "model.num_heads=4",
                            "data.vocab_size=500", "run.device=cpu"}) {
    overrides.insert(overrides.begin(), small);
  }
  proto::NmtConfig config;
  const Status loaded = LoadConfig({.files = {}, .overrides = overrides}, config);
  REQUIRE(std::string(loaded.message()) == "");
  return config;
}

Estimate EstimateOf(const std::vector<std::string>& overrides,
                    const EstimateOptions& options = {}) {
  const StatusOr<Estimate> estimate = EstimateRun(ConfigOf(overrides), options);
  REQUIRE(std::string(estimate.status().message()) == "");
  return *estimate;
}

int64_t BytesOf(const Tensor& tensor) {
  return tensor ? tensor.elements() * static_cast<int64_t>(SizeOf(tensor.dtype())) : 0;
}

TEST_CASE("a sharded optimizer is estimated at its part of the moments, checkpoints at the whole") {
  const Estimate whole = EstimateOf({"optimizer.ema_decay=0.99"}, {.ranks = 4});
  const Estimate sharded =
      EstimateOf({"optimizer.ema_decay=0.99", "trainer.shard_optimizer=true"}, {.ranks = 4});
  CHECK(sharded.memory.moments == whole.memory.moments / 4);
  CHECK(sharded.memory.average == whole.memory.average / 4);
  CHECK(sharded.memory.weights == whole.memory.weights);
  CHECK(sharded.checkpoint_bytes == whole.checkpoint_bytes);
}

TEST_CASE("estimated weights, gradients and optimizer state are those of real tensors") {
  for (const char* precision : {"trainer.precision=fp32", "trainer.precision=bf16"}) {
    for (const char* average : {"optimizer.ema_decay=0", "optimizer.ema_decay=0.99"}) {
      INFO(precision << ' ' << average);
      const proto::NmtConfig config = ConfigOf({precision, average});
      const Estimate estimate = EstimateOf({precision, average});
      Seq2SeqOptions options = ModelOptionsOf(config.model());
      options.vocab_size = estimate.workload.vocab_size;
      Seq2SeqTransformer model(options);
      ParameterSet& parameters = model.parameters();
      model.Allocate({}, estimate.workload.memory.context.compute_type, 1);
      Adam adam(parameters, TrainerOptionsOf(config, "run", 1).adam);
      CHECK(estimate.workload.parameters.total() == parameters.num_elements());
      const int64_t states = BytesOf(parameters.weights()) + BytesOf(parameters.gradients()) +
                             BytesOf(parameters.compute_weights()) + BytesOf(adam.first_moments()) +
                             BytesOf(adam.second_moments()) + BytesOf(adam.average());
      CHECK(estimate.memory.states() <= states);
      CHECK(static_cast<double>(states) <
            1.01 * static_cast<double>(estimate.memory.states()));  // padding between groups
      CHECK(estimate.checkpoint_bytes ==
            estimate.memory.weights + estimate.memory.moments + estimate.memory.average);
    }
  }
}

TEST_CASE("micro-batches are even parts of a rank's share") {
  const auto batch = [](std::vector<std::string> overrides, int ranks) {
    return MicroBatchOf(ConfigOf(std::move(overrides)).trainer(), ranks,
                        {.source = 30.0, .target = 20.0});
  };
  const Seq2SeqBatch whole =
      batch({"trainer.tokens_per_batch=1000", "trainer.micro_batch_tokens=1000"}, 1);
  CHECK(whole.target_tokens == 1000);
  CHECK(whole.source_tokens == 1500);
  CHECK(batch({"trainer.tokens_per_batch=1000", "trainer.micro_batch_tokens=1000"}, 4)
            .target_tokens == 250);
  CHECK(
      batch({"trainer.tokens_per_batch=1000", "trainer.micro_batch_tokens=400"}, 1).target_tokens ==
      334);
}

TEST_CASE("auto takes the fastest recomputation within nine tenths of the budget") {
  const std::string automatic = "trainer.recompute=auto";
  const Estimate ample = EstimateOf({automatic, "trainer.activation_mib=1000"});
  CHECK(ample.plan.recompute.recompute == Recompute::kNone);
  CHECK(ample.plan.budget_bytes == int64_t{1000} << 20);
  CHECK(ample.memory.activations == ample.choices[0].peak_bytes);
  // Just above and just below what each needs.
  const double none = static_cast<double>(ample.choices[0].peak_bytes) / (1 << 20);
  const double cheap = static_cast<double>(ample.choices[1].peak_bytes) / (1 << 20);
  REQUIRE(none > cheap + 3.0);
  const auto plan = [&](double mebibytes) {
    return EstimateOf(
               {automatic, "trainer.activation_mib=" + std::to_string(static_cast<int>(mebibytes))})
        .plan.recompute;
  };
  CHECK(plan(none / 0.9 + 1.0).recompute == Recompute::kNone);
  CHECK(plan(none / 0.9 - 1.0).recompute == Recompute::kCheap);
  const RecomputePlan deep = plan(cheap / 0.9 - 1.0);
  CHECK((deep.recompute == Recompute::kEveryK || deep.recompute == Recompute::kFull));
  CHECK(deep.fits);
  CHECK_FALSE(plan(1.0).fits);
  // Without a number, this machine's memory counts, and a small model fits.
  CHECK(EstimateOf({automatic}).plan.recompute.recompute == Recompute::kNone);
}

TEST_CASE("remedies of a full device say what each setting would need") {
  const auto remedies = [](std::vector<std::string> overrides) {
    const proto::NmtConfig config = ConfigOf(overrides);
    const Estimate estimate = EstimateOf(overrides);
    Seq2SeqOptions model = ModelOptionsOf(config.model());
    model.vocab_size = estimate.workload.vocab_size;
    return MemoryRemedies(config, model, MicroBatchOf(config.trainer(), 1, {}), estimate.plan,
                          estimate.workload.device.type);
  };
  const auto planned = [](std::vector<std::string> overrides) {
    return FormatMebibytes(EstimateOf(overrides).plan.recompute.peak_bytes);
  };
  const std::string text = remedies({});
  INFO(text);
  CHECK_THAT(text, Catch::Contains("planned with " + planned({}) + "; less take"));
  CHECK_THAT(text,
             Catch::Contains("(1) trainer.micro_batch_tokens=2048: " +
                             planned({"trainer.micro_batch_tokens=2048"}) + ", the same result"));
  CHECK_THAT(text, Catch::Contains("(3) trainer.precision=bf16: " +
                                   planned({"trainer.precision=bf16"}) + ", and "));
  // The settings named second are those of the lowest peak there is.
  const size_t begin = text.find("(2) ") + 4;
  const std::string settings = text.substr(begin, text.find(':', begin) - begin);
  std::vector<std::string> second = {settings.substr(0, settings.find(' '))};
  if (settings.find(' ') != std::string::npos) {
    second.push_back(settings.substr(settings.find(' ') + 1));
  }
  CHECK_THAT(text, Catch::Contains(settings + ": " + planned(second) + ", "));
  for (const char* mode : {"none", "cheap", "full"}) {
    CHECK(EstimateOf(second).plan.recompute.peak_bytes <=
          EstimateOf({std::string("trainer.recompute=") + mode}).plan.recompute.peak_bytes);
  }
  // In bf16 already: both of the others. One sentence is the least a micro-batch may hold.
  CHECK_THAT(remedies({"trainer.precision=bf16"}), Catch::Contains("(3) both: "));
  CHECK_THAT(remedies({"data.max_length=99", "trainer.micro_batch_tokens=150"}),
             Catch::Contains("(1) trainer.micro_batch_tokens=100: "));
}

TEST_CASE("every policy reaches the context that trains") {
  const auto context = [](const std::vector<std::string>& overrides) {
    return ContextOptionsOf(ConfigOf(overrides).trainer(), 0);
  };
  CHECK(context({}).recompute == Recompute::kNone);
  CHECK(context({"trainer.recompute=cheap"}).recompute == Recompute::kCheap);
  CHECK(context({"trainer.recompute=full"}).recompute == Recompute::kFull);
  const ContextOptions every = context({"trainer.recompute=every_k", "trainer.recompute_every=3"});
  CHECK(every.recompute == Recompute::kEveryK);
  CHECK(every.recompute_every == 3);
  const ContextOptions planned = WithRecompute(
      context({"trainer.recompute=auto"}), {.recompute = Recompute::kEveryK, .recompute_every = 4});
  CHECK(planned.recompute == Recompute::kEveryK);
  CHECK(planned.recompute_every == 4);
}

TEST_CASE("an update's FLOPs do not depend on the number of ranks") {
  const std::vector<std::string> config = {"trainer.tokens_per_batch=4000",
                                           "trainer.micro_batch_tokens=1000"};
  const Estimate one = EstimateOf(config);
  const Estimate four = EstimateOf(config, {.ranks = 4});
  CHECK(four.flops_per_update == Approx(one.flops_per_update).epsilon(1e-12));
  CHECK(one.flops_per_update == Approx(4000 * one.workload.flops_per_token).epsilon(1e-12));
  // Longer sentences cost more attention.
  CHECK(EstimateOf(config, {.source_length = 100, .target_length = 100}).workload.flops_per_token >
        one.workload.flops_per_token);
}

TEST_CASE("an estimate refuses what a run would refuse, data aside") {
  const auto message = [](const std::vector<std::string>& overrides) {
    const StatusOr<Estimate> estimate = EstimateRun(ConfigOf(overrides), {});
    CHECK((estimate.ok() || estimate.status().code() == ExitCode::kUsage));
    return std::string(estimate.status().message());
  };
  CHECK_THAT(message({"model.num_heads=7"}), Catch::Contains("a multiple of model.num_heads (7)"));
  if constexpr (!kWithCuda) {
    CHECK_THAT(message({"run.device=cuda", "trainer.recompute=auto"}),
               Catch::Contains("there is none here: set trainer.activation_mib"));
    CHECK(message({"run.device=cuda", "trainer.recompute=auto", "trainer.activation_mib=9"}) == "");
  }
}

TEST_CASE("the JSON form holds the numbers of the estimate") {
  const Estimate estimate =
      EstimateOf({"trainer.recompute=every_k", "trainer.recompute_every=3"}, {.ranks = 2});
  const nlohmann::json json = nlohmann::json::parse(EstimateJson(estimate));
  CHECK(json.at("parameters").at("total") == estimate.workload.parameters.total());
  CHECK(json.at("bytes").at("total") == estimate.memory.total());
  CHECK(json.at("bytes").at("activations") == estimate.plan.recompute.peak_bytes);
  CHECK(json.at("recompute").at("recompute") == "every_k");
  CHECK(json.at("recompute").at("recompute_every") == 3);
  CHECK(json.at("ranks") == 2);
  CHECK(json.at("activations").size() == 4);
  CHECK(json.at("flops_per_update") == estimate.flops_per_update);
  CHECK(json.at("checkpoint_bytes") == estimate.checkpoint_bytes);
}

proto::ClassificationConfig ClassifierOf(std::vector<std::string> overrides) {
  for (const char* small : {"model.hidden_size=64", "model.ffn_size=128", "model.num_heads=4",
                            "model.vocab_size=500", "run.device=cpu"}) {
    overrides.insert(overrides.begin(), small);
  }
  proto::ClassificationConfig config;
  REQUIRE(MergeConfigText(ClassificationDefaults(), "defaults", ".", config).ok());
  const Status loaded = LoadConfig({.files = {}, .overrides = overrides}, config);
  REQUIRE(std::string(loaded.message()) == "");
  return config;
}

Estimate EstimateOfClassifier(const std::vector<std::string>& overrides,
                              const EstimateOptions& options = {}) {
  const StatusOr<Estimate> estimate = EstimateRun(ClassifierOf(overrides), options);
  REQUIRE(std::string(estimate.status().message()) == "");
  return *estimate;
}

TEST_CASE("texts are summed up by mean, deviation and the longest") {
  const std::vector<int32_t> texts = {4, 8, 8, 4, 4, 8};
  const TextLengths lengths = TextLengthsOf(texts);
  CHECK(lengths.mean == Approx(6.0));
  CHECK(lengths.deviation == Approx(2.0));
  CHECK(lengths.longest == 8);
  const std::vector<int64_t> counts = {0, 0, 0, 0, 3, 0, 0, 0, 3, 0};
  CHECK(TextLengthsOfCounts(counts).mean == Approx(6.0));
  CHECK(TextLengthsOfCounts(counts).deviation == Approx(2.0));
  CHECK(TextLengthsOfCounts(counts).longest == 8);
  CHECK(TextLengthsOf({}).longest == 1);
}

TEST_CASE("a classifier's micro-batches are planned from the lengths of its texts") {
  const auto batch = [](std::vector<std::string> overrides, int ranks, const TextLengths& lengths) {
    return MicroBatchOf(ClassifierOf(std::move(overrides)).trainer(), ranks, lengths);
  };
  const TextLengths lengths{.mean = 20.0, .deviation = 5.0, .longest = 100};
  const BertBatch whole = batch({"trainer.batch_size=64"}, 1, lengths);
  CHECK(whole.texts == 64);
  CHECK(whole.tokens == 64 * 20 + 4 * 5 * 8);
  CHECK(batch({"trainer.batch_size=64"}, 4, lengths).texts == 16);
  // As many texts as fit however long they are.
  const std::string micro = "trainer.micro_batch_tokens=1000";
  CHECK(batch({"trainer.batch_size=64", micro}, 1, lengths).texts == 10);
  CHECK(batch({"trainer.batch_size=1"}, 1, lengths).tokens == 40);
  CHECK(
      batch({"trainer.batch_size=1"}, 1, {.mean = 20.0, .deviation = 9.0, .longest = 30}).tokens ==
      30);
  const BertBatch by_tokens = batch({"trainer.tokens_per_batch=3000", micro}, 1, lengths);
  CHECK(by_tokens.tokens == 1000);
  CHECK(by_tokens.texts == 50);
}

TEST_CASE("a classifier with recompute=auto takes the fastest recomputation that fits") {
  const std::string automatic = "trainer.recompute=auto";
  const Estimate ample = EstimateOfClassifier({automatic, "trainer.activation_mib=1000"});
  CHECK(ample.plan.recompute.recompute == Recompute::kNone);
  CHECK(ample.plan.budget_bytes == int64_t{1000} << 20);
  CHECK(ample.memory.activations == ample.choices[0].peak_bytes);
  const double none = static_cast<double>(ample.choices[0].peak_bytes) / (1 << 20);
  const auto plan = [&](double mebibytes) {
    const std::string budget =
        "trainer.activation_mib=" + std::to_string(static_cast<int>(mebibytes));
    return EstimateOfClassifier({automatic, budget}).plan.recompute;
  };
  CHECK(plan(none / 0.9 + 1.0).recompute == Recompute::kNone);
  CHECK(plan(none / 0.9 - 1.0).recompute == Recompute::kCheap);
  CHECK_FALSE(plan(1.0).fits);
  const ContextOptions context =
      WithRecompute(BertContextOf(ClassifierOf({automatic}).trainer(), 1, 0),
                    {.recompute = Recompute::kEveryK, .recompute_every = 4});
  CHECK(context.recompute == Recompute::kEveryK);
  CHECK(context.recompute_every == 4);
}

TEST_CASE("remedies of a classifier name the micro-batch that takes half of the texts") {
  const auto remedies = [](const std::vector<std::string>& overrides) {
    const Estimate estimate = EstimateOfClassifier(overrides);
    const proto::ClassificationConfig config = ClassifierOf(overrides);
    BertClassifierOptions model = ClassifierOptionsOf(config);
    model.bert.vocab_size = estimate.workload.vocab_size;
    const int64_t longest = config.data().max_length();
    const BertBatch batch = MicroBatchOf(
        config.trainer(), 1, {.mean = static_cast<double>(longest), .longest = longest});
    return BertMemoryRemedies(config.trainer(), estimate.workload.memory, estimate.plan,
                              ClassifierHead(model).costs, batch, longest,
                              estimate.workload.device.type);
  };
  const auto planned = [](const std::vector<std::string>& overrides) {
    return FormatMebibytes(EstimateOfClassifier(overrides).plan.recompute.peak_bytes);
  };
  const std::string text = remedies({});
  INFO(text);
  CHECK_THAT(text, Catch::Contains("planned with " + planned({}) + "; less take"));
  CHECK_THAT(text,
             Catch::Contains("(1) trainer.micro_batch_tokens=2048: " +
                             planned({"trainer.micro_batch_tokens=2048"}) + ", the same result"));
  CHECK_THAT(text, Catch::Contains("(3) trainer.precision=bf16: " +
                                   planned({"trainer.precision=bf16"}) + ", and "));
}

TEST_CASE("the JSON form of a classifier's estimate holds its numbers") {
  const Estimate estimate = EstimateOfClassifier({}, {.source_length = 40.0});
  const nlohmann::json json = nlohmann::json::parse(EstimateJson(estimate));
  CHECK(json.at("parameters").at("total") == estimate.workload.parameters.total());
  CHECK(json.at("bytes").at("activations") == estimate.plan.recompute.peak_bytes);
  CHECK(json.at("micro_batch").at("tokens") == 32 * 40);
  CHECK(json.at("flops_per_token") == estimate.workload.flops_per_token);
  CHECK(json.at("activations").size() == 4);
}

}  // namespace
}  // namespace dtrain
