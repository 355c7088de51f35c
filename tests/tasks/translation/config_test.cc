// config_test.cc - relations between fields of a translation run.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/config.h"

#include <filesystem>
#include <string>
#include <vector>

#include "dtrain/config/config.h"
#include "dtrain/launch/internal/optimizer_config.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/ops/dropout.h"
#include "dtrain/tasks/translation/options.h"
#include "testing/catch.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

std::string Validate(const std::vector<std::string>& overrides) {
  proto::NmtConfig config;
  const Status loaded = LoadConfig({.files = {}, .overrides = overrides}, config);
  REQUIRE(std::string(loaded.message()) == "");
  const Status status = ValidateNmtConfig(config);
  CHECK((status.ok() || status.code() == ExitCode::kUsage));
  return std::string(status.message());
}

TEST_CASE("the defaults and some data are a valid run") {
  CHECK(Validate({"data.prepared=/data"}).empty());
  CHECK(Validate({"data.prepared=/data", "data.train_tsv=a.tsv", "data.dev_tsv=b.tsv"}).empty());
  for (const char* const set : {"dev", "test"}) {
    const std::string name = std::string("data.") + set;
    CHECK_THAT(Validate({"data.prepared=/data", name + "_tsv=file"}),
               Catch::StartsWith(name + "_tsv is ignored if data.prepared"));
    CHECK_THAT(Validate({"data.prepared=/data", name + "_source=a", name + "_target=b"}),
               Catch::StartsWith(name + "_source is ignored if data.prepared"));
  }
  CHECK_THAT(Validate({"data.prepared=/data", "data.vocabulary=v.spm"}),
             Catch::StartsWith("data.vocabulary is ignored if data.prepared"));
  CHECK(Validate({"data.train_source=/a.en,/b.en", "data.train_target=/a.de,/b.de"}).empty());
  CHECK(Validate({"data.train_tsv=/a.tsv"}).empty());
}

TEST_CASE("fields that contradict each other are named") {
  struct Case {
    std::vector<std::string> overrides;
    std::string message;
  };
  const Case cases[] = {
      {{"model.num_heads=7"}, "model.hidden_size (512) must be a multiple of model.num_heads (7)"},
      {{"model.hidden_size=15", "model.num_heads=3"}, "model.hidden_size (15) must be even"},
      {{"optimizer.warmup_steps=0"},
       "optimizer.schedule inverse_sqrt needs optimizer.warmup_steps"},
      {{"optimizer.schedule=cosine", "trainer.max_steps=0", "trainer.max_time=1h"},
       "optimizer.schedule cosine needs an end"},
      {{"optimizer.schedule=linear", "trainer.max_steps=100"},
       "optimizer.warmup_steps (4000) must be below the 100 steps of optimizer.schedule linear"},
      {{"optimizer.schedule=polynomial_total", "trainer.max_steps=0", "trainer.max_time=1h"},
       "optimizer.schedule polynomial_total needs an end"},
      {{"optimizer.schedule=linear_to_budget"},
       "optimizer.schedule linear_to_budget needs trainer.max_time"},
      {{"optimizer.schedule=warmup_stable_decay", "trainer.max_steps=5000"},
       "optimizer.schedule warmup_stable_decay needs optimizer.decay_steps of at least 1"},
      {{"optimizer.decay_steps=5"},
       "optimizer.decay_steps is for optimizer.schedule=warmup_stable_decay"},
      {{"optimizer.schedule=warmup_stable_decay", "trainer.max_steps=5000",
        "optimizer.decay_steps=2000"},
       "optimizer.warmup_steps (4000) and decay_steps (2000) are more than the 5000 updates"},
      {{"optimizer.min_learning_rate=1"},
       "optimizer.min_learning_rate (1) is above optimizer.learning_rate (0.001)"},
      {{"optimizer.type=lamb"},
       "optimizer.type=lamb without optimizer.weight_decay adapts no tensor"},
      {{"trainer.max_steps=0"}, "this run would never end"},
      {{"trainer.eval_every=", "trainer.early_stop.patience=3"},
       "trainer.early_stop.patience needs evaluations"},
      {{"trainer.sync_every=8", "trainer.power_sgd_rank=4"}, "no gradients are exchanged that"},
      {{"trainer.sync_every=8", "trainer.sync_every_start=5", "trainer.power_sgd_rank=4"},
       "no gradients are exchanged after update 5 (trainer.sync_every_start)"},
      {{"trainer.sync_every=8", "trainer.wire_precision=bf16"}, "always as fp32"},
      {{"trainer.sync_every_start=500"}, "because trainer.sync_every is 1"},
      {{"data.train_source=/a.en,/b.en", "data.train_target=/a.de"},
       "data.train_source lists 2 files and data.train_target 1"},
      {{"data.train_source=/a", "data.train_target=/b", "data.train_tsv=/c"}, "not both"},
      {{R"(data.sources={tsv: "/a"})", "data.train_tsv=/c"},
       "data.sources is all of the training text: name the files of data.train_source"},
      {{R"(data.sources=[{tsv: "/a"}, {source: "/a.en"}])"},
       "data.sources, item 2: source lists 1 files and target 0; they must pair up"},
      {{"data.sources={weight: 2}"}, "data.sources, item 1: names no text"},
      {{R"(data.sources={tsv: "/a" tag: "a b"})"}, "data.sources, item 1: tag has white space"},
      {{"data.dev_source=/a.en"}, "set data.dev_target"},
      {{"data.test_target=/a.en"}, "set data.test_source"},
      {{"data.dev_tsv=/a.tsv", "data.dev_target=/a.de"},
       "set data.dev_source and data.dev_target, or one of data.dev_tsv, dev_tmx, dev_jsonl and "
       "dev_prefix, not both"},
      {{"data.max_length=1024"},
       "data.max_length (1024) and an end mark exceed model.max_positions (1024)"},
      {{"trainer.micro_batch_tokens=128"},
       "data.max_length (256) and an end mark exceed trainer.micro_batch_tokens (128)"},
  };
  for (const Case& c : cases) {
    std::vector<std::string> overrides = {"data.prepared=/data"};
    overrides.insert(overrides.end(), c.overrides.begin(), c.overrides.end());
    CHECK_THAT(Validate(overrides), Catch::Contains(c.message));
  }
}

TEST_CASE("a learning rate falls to the end of the run, by updates or by epochs") {
  const auto total = [](const std::vector<std::string>& overrides) {
    proto::NmtConfig config;
    std::vector<std::string> all = {"data.prepared=/data", "optimizer.schedule=cosine",
                                    "optimizer.warmup_steps=10"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    CHECK(LoadConfig({.files = {}, .overrides = all}, config).ok());
    CHECK(std::string(ValidateNmtConfig(config).message()) == "");
    return TrainerOptionsOf(config, "/r", 25).learning_rate.total_steps;
  };
  CHECK(total({}) == 100000);
  CHECK(total({"trainer.max_epochs=4"}) == 100);
  CHECK(total({"trainer.max_epochs=4", "trainer.max_steps=70"}) == 70);
  CHECK(total({"trainer.max_epochs=4", "trainer.max_steps=0"}) == 100);
  CHECK(total({"trainer.max_epochs=4", "optimizer.total_steps=300"}) == 300);
}

TEST_CASE("epochs that are given are not cut short by the default of max_steps") {
  const auto options = [](const std::vector<std::string>& overrides) {
    proto::NmtConfig config;
    CHECK(LoadConfig({.files = {}, .overrides = overrides}, config).ok());
    return TrainerOptionsOf(config, "/r", 100000);
  };
  CHECK(options({}).max_steps == 100000);
  CHECK(options({"trainer.max_epochs=4"}).max_steps == 0);
  CHECK(options({"trainer.max_epochs=4"}).learning_rate.total_steps == 400000);
  CHECK(options({"trainer.max_epochs=4", "trainer.max_steps=9"}).max_steps == 9);
}

TEST_CASE("the ways to spare a slow network reach the trainer") {
  const auto options = [](const std::vector<std::string>& overrides) {
    proto::NmtConfig config;
    CHECK(LoadConfig({.files = {}, .overrides = overrides}, config).ok());
    CHECK(ValidateWithoutData(config).ok());
    return TrainerOptionsOf(config, "/r", 25);
  };
  CHECK(options({"trainer.wire_precision=fp16"}).reducer.wire_type == DType::kFloat16);
  CHECK(options({"trainer.wire_precision=bf16"}).reducer.wire_type == DType::kBFloat16);
  const PowerSgdOptions power_sgd =
      options({"trainer.power_sgd_rank=4", "trainer.seed=9"}).reducer.power_sgd;
  CHECK(power_sgd.rank == 4);
  CHECK(power_sgd.start_step == 1000);
  CHECK(power_sgd.seed == 9);
  CHECK(options({"trainer.sync_every=8"}).sync_every == 8);
  CHECK(options({}).sync_every == 1);
  CHECK(options({}).reducer.power_sgd.rank == 0);
}

TEST_CASE("ranks draw other dropout of rows without numbers, of the run's seed") {
  proto::NmtConfig config;
  REQUIRE(LoadConfig({.files = {}, .overrides = {"trainer.seed=9"}}, config).ok());
  const auto seed_of = [&](int rank) {
    const Context context({}, ContextOptionsOf(config.trainer(), rank));
    const uint64_t seed = context.MakeDropout(0.1f, /*site=*/3).key.seed;
    return seed;
  };
  CHECK(seed_of(0) == 9);
  CHECK(seed_of(1) != seed_of(0));
  CHECK(seed_of(2) != seed_of(1));
}

// Every preset loads; those without data of their own get some.
TEST_CASE("every preset is a valid configuration") {
  const std::filesystem::path folder(testing::PresetsDirectory("nmt_train"));
  int presets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    INFO(entry.path());
    ++presets;
    proto::NmtConfig config;
    const Status loaded =
        LoadConfig({.files = {entry.path()}, .overrides = {"data.prepared=/data"}}, config);
    REQUIRE(std::string(loaded.message()) == "");
    CHECK(std::string(ValidateNmtConfig(config).message()) == "");
  }
  CHECK(presets >= 6);
}

TEST_CASE("the demo preset names files that are there") {
  proto::NmtConfig config;
  const std::filesystem::path folder(testing::PresetsDirectory("nmt_train"));
  REQUIRE(MergeConfigFile(folder / "demo.textproto", config).ok());
  REQUIRE(config.data().train_tsv_size() == 1);
  const std::string files[] = {config.data().train_tsv(0), config.data().dev_tsv(),
                               config.data().test_tsv()};
  for (const std::string& file : files) {
    INFO(file);
    CHECK(std::filesystem::exists(file));
  }
}

TEST_CASE("each type of optimizer is its update rule") {
  using Config = proto::OptimizerConfig;
  using Ratio = AdamConfig::TrustRatio;
  const auto of = [](Config::Type type) {
    Config config;
    config.set_type(type);
    return internal::AdamConfigOf(config);
  };
  CHECK_FALSE(of(Config::adam).decoupled);
  for (const auto type : {Config::adamw, Config::bert_adamw, Config::lamb, Config::nvlamb}) {
    CHECK(of(type).decoupled);
    CHECK(of(type).bias_correction == (type != Config::bert_adamw));
  }
  CHECK(of(Config::adamw).trust_ratio == Ratio::kNone);
  CHECK(of(Config::lamb).trust_ratio == Ratio::kDecayed);
  CHECK(of(Config::nvlamb).trust_ratio == Ratio::kAll);
}

TEST_CASE("sources are read in their order, each with its files, weight and tag") {
  proto::NmtConfig config;
  const ConfigSources overrides{
      .files = {},
      .overrides = {R"(data.sources=[{source: ["/a.en", "/b.en"] target: ["/a.de", "/b.de"]},)"
                    R"( {tsv: "/c.tsv" weight: 3 tag: "<c>"}])"}};
  REQUIRE(LoadConfig(overrides, config).ok());
  CHECK(HasTrainingText(config.data()));
  REQUIRE(ValidateDataConfig(config.data()).ok());
  const PrepareOptions options = PrepareOptionsOf(config.data(), "/out");
  REQUIRE(options.train.size() == 3);
  CHECK(options.train[1].source == "/b.en");
  CHECK(options.train[1].target == "/b.de");
  CHECK(options.train[2].source == "/c.tsv");
  REQUIRE(options.sources.size() == 2);
  CHECK(options.sources[0].num_inputs == 2);
  CHECK(options.sources[0].weight == 1.0);
  CHECK(options.sources[0].tag.empty());
  CHECK(options.sources[1].num_inputs == 1);
  CHECK(options.sources[1].weight == 3.0);
  CHECK(options.sources[1].tag == "<c>");
}

TEST_CASE("a run without data says which fields to set") {
  CHECK_THAT(Validate({}), Catch::StartsWith("no training data is given: set data.prepared"));
}

}  // namespace
}  // namespace dtrain
