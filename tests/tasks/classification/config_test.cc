// config_test.cc - relations between fields of a classification run, its presets and defaults.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/config/config.h"

#include <filesystem>
#include <string>
#include <vector>

#include "dtrain/base/period.h"
#include "dtrain/classification.pb.h"
#include "dtrain/tasks/classification/config.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/bert_training.h"
#include "testing/catch.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

const std::string kPresets = testing::PresetsDirectory("bert_classify");

proto::ClassificationConfig WithDefaults() {
  proto::ClassificationConfig config;
  REQUIRE(MergeConfigText(ClassificationDefaults(), "defaults", "", config).ok());
  return config;
}

proto::ClassificationConfig Load(const std::vector<std::string>& overrides,
                                 const std::vector<std::string>& files = {}) {
  proto::ClassificationConfig config = WithDefaults();
  const Status loaded = LoadConfig({.files = files, .overrides = overrides}, config);
  REQUIRE(std::string(loaded.message()) == "");
  return config;
}

const std::vector<std::string> kData = {"data.train=/train.tsv", "data.vocabulary=/vocab.txt"};

std::string Validate(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), kData.begin(), kData.end());
  const Status status = ValidateClassificationConfig(Load(overrides));
  CHECK((status.ok() || status.code() == ExitCode::kUsage));
  return std::string(status.message());
}

TEST_CASE("the defaults and some data are a valid classification run") {
  CHECK(Validate({}).empty());
  CHECK(ValidateClassificationConfig(
            Load({"data.glue=sst-2", "data.glue_dir=/glue", "data.vocabulary=/v"}))
            .ok());
}

TEST_CASE("fields of a classification run that contradict each other are named") {
  struct Case {
    std::vector<std::string> overrides;
    std::string message;
  };
  const Case cases[] = {
      {{"model.num_heads=7"}, "model.hidden_size (768) must be a multiple of model.num_heads (7)"},
      {{"model.family=modernbert", "model.num_heads=256"}, "must be an even multiple of"},
      {{"optimizer.type=lamb", "optimizer.weight_decay=0"}, "adapts no tensor"},
      {{"trainer.shard_optimizer=true", "trainer.sync_every=8"}, "works neither with"},
      {{"trainer.sync_every=8", "trainer.power_sgd_rank=4"}, "no gradients are exchanged that"},
      {{"trainer.sync_every=8", "trainer.sync_every_start=5", "trainer.power_sgd_rank=4"},
       "no gradients are exchanged after update 5 (trainer.sync_every_start)"},
      {{"trainer.sync_every=8", "trainer.wire_precision=fp16"}, "always as fp32"},
      {{"trainer.sync_every_start=500"}, "because trainer.sync_every is 1"},
      {{"trainer.early_stop.patience=2", "trainer.eval_every="}, "set trainer.eval_every"},
      {{"trainer.max_epochs=0"}, "this run would never end"},
      {{"trainer.max_epochs=0", "trainer.max_time=5m"}, "optimizer.schedule linear needs an end"},
      {{"trainer.seeds=1,2,1", "run.run_dir=/r"}, "trainer.seeds lists a seed twice"},
      {{"trainer.seeds=1,2"}, "give --run_dir"},
      {{"trainer.seeds=1,2", "run.run_dir=/r", "run.resume=never"}, "need run.resume=auto"},
      {{"trainer.label_weights=1,-1"}, "trainer.label_weights lists -1"},
      {{"trainer.label_weights=0,0"}, "trainer.label_weights are all 0"},
      {{"optimizer.schedule=warmup_stable_decay", "trainer.max_steps=100",
        "trainer.warmup_ratio=0.5", "optimizer.decay_steps=60"},
       "trainer.warmup_ratio (0.5, which is 50 updates) and optimizer.decay_steps (60) are more "
       "than the 100 updates of the schedule"},
      {{"optimizer.min_learning_rate=1"}, "is above optimizer.learning_rate"},
      {{"data.max_length=600"}, "data.max_length (600) exceeds model.max_positions (512)"},
      {{"data.label=a,b"}, "needs data.labels=multi"},
      {{"data.weights=fixed"}, "set data.jigsaw=true"},
      {{"data.groups=a,b"}, "data.groups is for subgroup metrics"},
      {{"data.glue=sst-2", "data.glue_dir=/glue"}, "not both"},
      {{"data.vocabulary="}, "vocab.txt (`dtrain tokenizer learn` makes one)"},
      {{"data.jigsaw=true", "data.label=toxic"}, "data.label is set, but data.jigsaw"},
      {{"data.jigsaw=true", "data.label_names=a,b"}, "data.label_names is set, but data.jigsaw"},
      {{"data.jigsaw=true", "data.labels=value"}, "data.labels is set, but data.jigsaw determines"},
      {{"data.jigsaw=true", "data.header=false"}, "data.header is set, but data.jigsaw determines"},
  };
  for (const Case& c : cases) {
    INFO(c.overrides[0]);
    CHECK_THAT(Validate(c.overrides), Catch::Contains(c.message));
  }
  CHECK_THAT(std::string(ValidateClassificationConfig(Load({"data.vocabulary=/v"})).message()),
             Catch::Contains("no training data"));
  CHECK_THAT(
      std::string(
          ValidateClassificationConfig(Load({"data.vocabulary=/v", "data.glue=sst-2"})).message()),
      Catch::Contains("data.glue needs data.glue_dir"));
  CHECK_THAT(std::string(ValidateClassificationUse(Load({})).message()),
             Catch::Contains("no model is given"));
  CHECK(ValidateClassificationUse(Load({"run.run_dir=/r"})).ok());
}

TEST_CASE("what a task of GLUE decides is not taken from elsewhere") {
  const std::vector<std::string> task = {"data.glue=sts-b", "data.glue_dir=/glue",
                                         "data.vocabulary=/v", "run.run_dir=/r"};
  const auto load = [&](const std::string& override) {
    std::vector<std::string> overrides = task;
    overrides.push_back(override);
    return Load(overrides);
  };
  for (const std::string override :
       {"data.label_names=a,b", "data.labels=multi", "data.header=false", "data.hold_out=0.2"}) {
    INFO(override);
    const std::string key = override.substr(0, override.find('='));
    for (const Status& status : {ValidateClassificationConfig(load(override)),
                                 ValidateClassificationUse(load(override))}) {
      CHECK(status.code() == ExitCode::kUsage);
      CHECK_THAT(std::string(status.message()),
                 Catch::Contains(key + " is set, but data.glue determines"));
    }
  }
  // What holds anyway.
  for (const std::string override :
       {"data.labels=value", "data.header=true", "data.hold_out=0", "data.hold_out=0.1"}) {
    INFO(override);
    CHECK(ValidateClassificationConfig(load(override)).ok());
  }
  CHECK(Validate({"data.jigsaw=true", "data.labels=multi", "data.hold_out=0.2"}).empty());
}

TrainerOptions OptionsOf(const proto::ClassificationConfig& config, const BertRunFacts& run) {
  return BertTrainerOf(config.trainer(), config.optimizer(), config.model().hidden_size(), run);
}

// Of the whole run.
int64_t UpdatesIn(const TrainerOptions& options) {
  return UpdatesOf(options.max_steps, options.max_epochs, options.updates_per_epoch);
}

TEST_CASE("a run lasts its epochs, and warms up over a tenth of its updates") {
  const proto::ClassificationConfig config =
      Load({"trainer.max_epochs=4", "optimizer.learning_rate=1e-4"});
  const TrainerOptions options =
      OptionsOf(config, {.run_dir = "/r", .updates_per_epoch = 25, .main_metric = "accuracy"});
  CHECK(UpdatesIn(options) == 100);
  CHECK(options.learning_rate.total_steps == 100);
  CHECK(options.learning_rate.warmup_steps == 10);
  CHECK(options.learning_rate.kind == LrScheduleOptions::Kind::kLinear);
  CHECK(options.adam.beta2 == 0.999f);
  CHECK(options.adam.decoupled);
  CHECK(options.adam.bias_correction);
  CHECK(options.best_metric == "accuracy");
  CHECK(options.checkpoint_dir == "/r/ckpt");
  const auto steps = [](std::vector<std::string> overrides) {
    return OptionsOf(Load(overrides), {.run_dir = "/r", .updates_per_epoch = 25});
  };
  CHECK(UpdatesIn(steps({"trainer.max_steps=10"})) == 10);
  CHECK(UpdatesIn(steps({"trainer.max_steps=1000", "trainer.max_epochs=3"})) == 75);
  CHECK(steps({"optimizer.warmup_steps=3"}).learning_rate.warmup_steps == 3);
  CHECK(steps({"trainer.warmup_ratio=0"}).learning_rate.warmup_steps == 0);
  // Only what is made of epochs changes with the updates of one.
  CHECK(options.is_rate_of_epochs);
  CHECK_FALSE(steps({"optimizer.warmup_steps=3"}).is_rate_of_epochs);
  CHECK_FALSE(steps({"optimizer.total_steps=90"}).is_rate_of_epochs);
  CHECK_FALSE(steps({"optimizer.schedule=warmup_stable_decay", "optimizer.decay_steps=9"})
                  .is_rate_of_epochs);
}

TEST_CASE("updates that are given are not cut short by the default of max_epochs") {
  const auto options = [](const proto::ClassificationConfig& config) {
    return OptionsOf(config, {.run_dir = "/r", .updates_per_epoch = 25});
  };
  const proto::ClassificationConfig config = Load({"trainer.max_steps=1000"});
  CHECK(UpdatesIn(options(config)) == 1000);
  // The configuration as a run keeps it says the same.
  proto::ClassificationConfig again = WithDefaults();
  REQUIRE(MergeConfigText(PrintConfig(config, ConfigFormat::kFull), "again", "", again).ok());
  CHECK(UpdatesIn(options(again)) == 1000);
  // 0 gives no limit, so that the default holds.
  CHECK(UpdatesIn(options(Load({"trainer.max_steps=0"}))) == 75);
  CHECK(UpdatesIn(options(Load({"trainer.max_steps=1000", "trainer.max_epochs=2"}))) == 50);
}

TEST_CASE("a printed configuration is that of the same run") {
  const proto::ClassificationConfig defaults = WithDefaults();
  const auto again = [&](const std::vector<std::string>& overrides, ConfigFormat format) {
    proto::ClassificationConfig config = WithDefaults();
    const std::string text = PrintConfig(Load(overrides), format, &defaults);
    INFO(text);
    REQUIRE(MergeConfigText(text, "printed", "", config).ok());
    SettleDefaults(config);
    return config;
  };
  for (const ConfigFormat format : {ConfigFormat::kFull, ConfigFormat::kMinimal}) {
    // What the .proto file has as its default, and the program has not.
    const proto::ClassificationConfig config =
        again({"optimizer.learning_rate=1e-3", "trainer.max_steps=100", "trainer.max_epochs=3",
               "data.lower_case=true"},
              format);
    CHECK(config.optimizer().learning_rate() == 1e-3f);
    CHECK(config.trainer().max_steps() == 100);
    CHECK(config.trainer().max_epochs() == 3);
    CHECK(config.data().has_lower_case());

    // The task decides over rows and columns, the pretrained weights over the texts' case.
    const proto::ClassificationConfig glue =
        again({"data.glue=qqp", "data.glue_dir=/glue", "data.vocabulary=/v"}, format);
    CHECK(ValidateClassificationConfig(glue).ok());
    CHECK_FALSE(glue.data().has_bad_rows());
    CHECK_FALSE(glue.data().has_lower_case());
  }
}

TEST_CASE("the ways to spare a slow network reach the classifier's trainer") {
  const auto options = [](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), std::begin(kData), std::end(kData));
    const proto::ClassificationConfig config = Load(overrides);
    CHECK(ValidateClassificationConfig(config).ok());
    return OptionsOf(config, {.run_dir = "/r", .seed = 9});
  };
  CHECK(options({"trainer.wire_precision=fp16"}).reducer.wire_type == DType::kFloat16);
  const PowerSgdOptions power_sgd = options({"trainer.power_sgd_rank=4"}).reducer.power_sgd;
  CHECK(power_sgd.rank == 4);
  CHECK(power_sgd.start_step == 100);
  CHECK(power_sgd.seed == 9);
  CHECK(options({"trainer.sync_every=8"}).sync_every == 8);
  CHECK(options({"trainer.sync_every=8"}).sync_every_start == 0);
  const TrainerOptions late = options(
      {"trainer.sync_every=8", "trainer.sync_every_start=500", "trainer.wire_precision=bf16"});
  CHECK(late.sync_every_start == 500);
  CHECK(late.reducer.wire_type == DType::kBFloat16);
}

TEST_CASE(
    "ranks draw other dropout of rows without numbers, and paths are no part of what they agree "
    "on") {
  const proto::ClassificationConfig config = Load(kData);
  const ContextOptions first = BertContextOf(config.trainer(), 5, 0);
  CHECK(first.seed == 5);
  CHECK(BertContextOf(config.trainer(), 5, 1).rank == 1);
  proto::ClassificationConfig other = Load(kData);
  other.mutable_run()->set_run_dir("/elsewhere");
  CHECK(internal::AgreedSettings(config) == internal::AgreedSettings(other));
  other.mutable_model()->set_num_layers(3);
  CHECK(internal::AgreedSettings(config) != internal::AgreedSettings(other));
}

TEST_CASE("every preset is valid, and has the parameters that its first lines say") {
  int presets = 0;
  for (const auto& file : std::filesystem::directory_iterator(kPresets)) {
    INFO(file.path());
    const bool demo = file.path().stem() == "demo";
    const proto::ClassificationConfig config =
        Load(demo ? std::vector<std::string>() : kData, {file.path().string()});
    CHECK(std::string(ValidateClassificationConfig(config).message()) == "");
    ++presets;
  }
  CHECK(presets == 8);
  const auto count = [](const std::string& name) {
    const proto::ClassificationConfig config = Load(kData, {kPresets + "/" + name + ".textproto"});
    BertClassifierOptions options = ClassifierOptionsOf(config);
    options.bert.vocab_size = 30522;
    BertClassifier model(options);
    // Without the head: its own weights for two classes.
    return model.parameters().num_elements() - 2 * options.bert.hidden_size - 2;
  };
  CHECK(count("tiny") == 4385920);
  CHECK(count("minilm") == 22713216);
  CHECK(count("base") == 109482240);
  CHECK(count("large") == 335141888);
}

}  // namespace
}  // namespace dtrain
