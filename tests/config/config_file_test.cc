// config_file_test.cc - textproto files: merging, paths, positions of errors, printing back.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "dtrain/config/config.h"
#include "dtrain/nmt.pb.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

// A directory of its own for one test.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dtrain-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST_CASE("later files win, lists are replaced, overrides come last") {
  const TemporaryDirectory directory;
  const std::string a = directory.Write("a.textproto", R"(
    model { hidden_size: 256 num_heads: 4 activation: gelu_erf }  # a comment
    data { train_source: ["a.en", "b.en"] }
    trainer { early_stop { patience: 3 } })");
  const std::string b = directory.Write("b.textproto",
                                        "\xEF\xBB\xBFmodel {\r\n  num_heads: 8\r\n}"
                                        "\r\ndata { train_source: 'c.en' }\r\n");
  proto::NmtConfig config;
  const Status status =
      LoadConfig({.files = {a, b}, .overrides = {"trainer.early_stop.patience=4"}}, config);
  REQUIRE(std::string(status.message()) == "");
  CHECK(config.model().hidden_size() == 256);
  CHECK(config.model().num_heads() == 8);
  CHECK(config.model().activation() == proto::ModelConfig::gelu_erf);
  CHECK(config.model().ffn_size() == 2048);
  CHECK(config.trainer().early_stop().patience() == 4);
  REQUIRE(config.data().train_source_size() == 1);
  CHECK(config.data().train_source(0) == directory.path() / "c.en");
}

TEST_CASE("paths in a file are relative to that file") {
  const TemporaryDirectory directory;
  const std::string file = directory.Write(
      "configs/a.textproto",
      "data { prepared: '../data' dev_source: '/abs/dev.en' sources { tsv: ['a.tsv', '/b.tsv'] } } "
      "run { resume: 'auto' run_dir: '' }");
  proto::NmtConfig config;
  REQUIRE(MergeConfigFile(file, config).ok());
  CHECK(config.data().prepared() == directory.path() / "data");
  CHECK(config.data().dev_source() == "/abs/dev.en");
  CHECK(config.data().sources(0).tsv(0) == directory.path() / "configs/a.tsv");
  CHECK(config.data().sources(0).tsv(1) == "/b.tsv");
  CHECK(config.run().resume() == "auto");
  CHECK(config.run().run_dir().empty());
}

TEST_CASE("an error in a file names file, line, column and field") {
  struct Case {
    std::string text;
    std::string message;
  };
  const Case cases[] = {
      {"model {\n  hiden_size: 512\n}",
       "f:2:3: unknown field \"hiden_size\" in model; did you mean model.hidden_size?"},
      {"hidden_size: 512", "f:1:1: unknown field \"hidden_size\"; did you mean model.hidden_size?"},
      {"trainer {\n  early_stop { patiense: 1 }\n}",
       "f:2:16: unknown field \"patiense\" in trainer.early_stop; did you mean "
       "trainer.early_stop.patience?"},
      {"model {\n  num_heads: eight\n}", "f:2:14: field num_heads: Expected integer, got: eight"},
      {"model {\n  num_heads: '8'\n}", "f:2:14: field num_heads: Expected integer, got: '8'"},
      {"model { num_heads: 8 num_heads: 9 }",
       "f:1:31: field num_heads: Non-repeated field \"num_heads\" is specified multiple times."},
      {"model { activation: gelu }",
       "f:1:21: activation is one of relu, gelu_erf, gelu_tanh, swish, not \"gelu\"; did you mean "
       "gelu_erf?"},
      {"model { hidden_size: 3000000000 }",
       "f:1:22: field hidden_size: Integer out of range (3000000000)"},
      {"model { dropout: x }", "f:1:18: field dropout: Expected double, got: x"},
      {"run {\n run_dir: \"unfinished\n}",
       "f:2:22: field run_dir: "
       "String literals cannot cross line boundaries."},
      {"model {\n num_heads: 8\n", "f:3:1: the file ends, and a } is missing"},
      {"model }",
       "f:1:7: Expected \"{\", found \"}\". Settings are written: trainer { max_steps: 100 }"},
      {std::string("model {\0}", 9), "f:1:8: Invalid control characters encountered in text."},
      {"\x80\x81",
       "f:1:1: Interpreting non ascii codepoint 128. Settings are written: trainer { max_steps: "
       "100 "
       "}"},
  };
  for (const Case& c : cases) {
    INFO(c.text);
    proto::NmtConfig config;
    const Status status = MergeConfigText(c.text, "f", "", config);
    CHECK(std::string(status.message()) == c.message);
    CHECK(status.code() == ExitCode::kUsage);
  }
}

TEST_CASE("a file that cannot be read is named with the reason") {
  const TemporaryDirectory directory;
  proto::NmtConfig config;
  const Status missing = MergeConfigFile("/no/such.textproto", config);
  CHECK(std::string(missing.message()) ==
        "/no/such.textproto: cannot read the configuration: No such file or directory");
  CHECK(missing.code() == ExitCode::kUsage);
  const Status folder = MergeConfigFile(directory.path(), config);
  CHECK(std::string(folder.message()) ==
        directory.path().string() + ": cannot read the configuration: Is a directory");
}

TEST_CASE("a printed configuration loads back equal") {
  proto::NmtConfig config;
  const ConfigSources sources{
      .files = {},
      .overrides = {"model.dropout=0.3", "data.train_source=/a.en,/b\"ü.en", "trainer.seed=7",
                    "optimizer.schedule=cosine", "model.hidden_size=512", "run.progress=none",
                    R"(data.sources=[{tsv: "/a" weight: 0.3}, {prefix: "/b" tag: "<ü>"}])"}};
  REQUIRE(LoadConfig(sources, config).ok());
  const std::string full = PrintConfig(config, ConfigFormat::kFull);
  for (const ConfigFormat format : {ConfigFormat::kFull, ConfigFormat::kMinimal}) {
    const std::string text = PrintConfig(config, format);
    INFO(text);
    proto::NmtConfig again;
    const Status status = MergeConfigText(text, "printed", "", again);
    REQUIRE(std::string(status.message()) == "");
    CHECK(PrintConfig(again, ConfigFormat::kFull) == full);
    CHECK(PrintConfig(again, format) == text);
  }
}

TEST_CASE("the full form has every field with a default, the minimal one what differs from them") {
  proto::NmtConfig config;
  config.mutable_model()->set_hidden_size(512);
  config.mutable_model()->set_num_heads(4);
  CHECK(PrintConfig(config, ConfigFormat::kMinimal) == "model {\n  num_heads: 4\n}\n");
  const std::string full = PrintConfig(config, ConfigFormat::kFull);
  for (const std::string& key : ConfigKeys(*config.GetDescriptor())) {
    // Empty lists have no text.
    if (key.find("train_") != std::string::npos || key == "data.sources") continue;
    if (key == "model.lora.targets") continue;
    if (key == "run.comm_timeout") continue;  // the environment's, where it is not set
    CHECK_THAT(full, Catch::Contains(key.substr(key.rfind('.') + 1).append(": ")));
  }
  CHECK(PrintConfig(proto::NmtConfig(), ConfigFormat::kMinimal).empty());
}

TEST_CASE("the JSON form has every field with numbers as numbers") {
  proto::NmtConfig config;
  config.mutable_data()->add_train_source("/a.en");
  const auto json = nlohmann::json::parse(PrintConfig(config, ConfigFormat::kJson));
  CHECK(json["trainer"]["max_steps"] == 100000);
  CHECK(json["trainer"]["max_steps"].is_number());
  CHECK(json["model"]["dropout"].dump() == "0.1");
  CHECK(json["model"]["activation"] == "relu");
  CHECK(json["model"]["tie_output"] == true);
  CHECK(json["data"]["train_source"][0] == "/a.en");
  CHECK(json["data"]["train_target"].empty());
  CHECK(json["trainer"]["early_stop"]["metric"] == "bleu");
  CHECK(json["data"]["sources"].empty());
  config.mutable_data()->add_sources()->add_tsv("/a.tsv");
  const auto with_sources = nlohmann::json::parse(PrintConfig(config, ConfigFormat::kJson));
  CHECK(with_sources["data"]["sources"][0]["tsv"][0] == "/a.tsv");
  CHECK(with_sources["data"]["sources"][0]["weight"] == 1.0);
}

}  // namespace
}  // namespace dtrain
