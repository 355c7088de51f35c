// config_test.cc - relations between fields of a pre-training run, its presets, defaults.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/config.h"

#include <filesystem>
#include <string>
#include <vector>

#include "dtrain/config/config.h"
#include "dtrain/pretrain.pb.h"
#include "dtrain/tasks/pretraining/internal/data.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "testing/catch.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

const std::string kPresets = testing::PresetsDirectory("bert_pretrain");

proto::PretrainConfig Load(const std::vector<std::string>& overrides,
                           const std::vector<std::string>& files = {}) {
  proto::PretrainConfig config;
  REQUIRE(MergeConfigText(PretrainDefaults(), "defaults", "", config).ok());
  const Status loaded = LoadConfig({.files = files, .overrides = overrides}, config);
  REQUIRE(std::string(loaded.message()) == "");
  return config;
}

const std::vector<std::string> kData = {"data.train=/a.txt", "data.vocabulary=/vocab.txt"};

std::string Validate(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), kData.begin(), kData.end());
  const Status status = ValidatePretrainConfig(Load(overrides));
  CHECK((status.ok() || status.code() == ExitCode::kUsage));
  return std::string(status.message());
}

TEST_CASE("the defaults and some text are a valid pre-training run") {
  CHECK(Validate({}).empty());
  const proto::PretrainConfig config = Load(kData);
  CHECK(BertBatchOf(config.trainer()).samples_per_batch == 256);
  const PretrainingExampleOptions examples = internal::ExamplesOf(config.data(), 7);
  CHECK(examples.max_length == 128);
  CHECK(examples.short_share == 0.1);
  CHECK(examples.next_sentence);
  CHECK(examples.masking.share == 0.15);
  CHECK(examples.masking.max_predictions == 20);
  CHECK_FALSE(examples.masking.whole_words);
  CHECK(examples.seed == 7);
}

TEST_CASE("fields of a pre-training run that contradict each other are named") {
  struct Case {
    std::vector<std::string> overrides;
    std::string message;
  };
  const Case cases[] = {
      {{"model.num_heads=7"}, "model.hidden_size (768) must be a multiple of model.num_heads (7)"},
      {{"data.max_length=600"}, "data.max_length (600) exceeds model.max_positions (512)"},
      {{"data.vocabulary="}, "vocab.txt (`dtrain tokenizer learn` makes one)"},
      {{"trainer.label_weights=1"}, "trainer.label_weights weighs classes"},
      {{"trainer.best_metric=loss", "data.hold_out=0"},
       "trainer.best_metric needs evaluations: set data.dev or data.hold_out"},
      {{"model.classifier_dropout=0.5"}, "model.classifier_dropout belongs to a classifier"},
      {{"predict.output=/p"}, "predict.output is for predictions"},
      {{"trainer.early_stop.patience=2", "data.hold_out=0"}, "set data.dev or data.hold_out"},
  };
  for (const Case& c : cases) {
    INFO(c.overrides[0]);
    CHECK_THAT(Validate(c.overrides), Catch::Contains(c.message));
  }
  CHECK_THAT(std::string(ValidatePretrainConfig(Load({"data.vocabulary=/v"})).message()),
             Catch::Contains("no training data"));
  CHECK_THAT(std::string(ValidatePretrainUse(Load({})).message()),
             Catch::Contains("no model is given"));
  CHECK(ValidatePretrainUse(Load({"run.run_dir=/r"})).ok());
  CHECK(ValidatePretrainUse(Load({"run.run_dir=/r", "model.classifier_dropout=0.1"})).ok());
}

TEST_CASE("fewer predictions than the masked share are warned of") {
  const auto warning = [](const std::vector<std::string>& overrides) {
    return internal::MaskingWarning(Load(overrides).data());
  };
  CHECK(warning({}) == "");
  CHECK_THAT(warning({"data.max_length=512"}), Catch::Contains("data.max_predictions=77"));
  CHECK(warning({"data.max_length=512", "data.max_predictions=70"}) == "");
  CHECK_THAT(warning({"data.max_length=512", "data.max_predictions=69"}),
             Catch::Contains("data.max_predictions (69) hides fewer"));
  CHECK_THAT(warning({"data.masked_share=0.3"}), Catch::Contains("data.max_predictions=39"));
}

TEST_CASE("every preset of pre-training is a valid run") {
  int presets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kPresets)) {
    INFO(entry.path().string());
    ++presets;
    const bool has_data = entry.path().filename() == "demo.textproto";
    CHECK(std::string(ValidatePretrainConfig(Load(has_data ? std::vector<std::string>() : kData,
                                                  {entry.path().string()}))
                          .message()) == "");
    CHECK(internal::MaskingWarning(Load({}, {entry.path().string()}).data()) == "");
  }
  CHECK(presets == 5);
}

}  // namespace
}  // namespace dtrain
