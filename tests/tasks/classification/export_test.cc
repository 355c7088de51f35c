// export_test.cc - what an exported classifier's folder holds, and whose it may not be.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/export.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "dtrain/base/log.h"
#include "dtrain/classification.pb.h"
#include "dtrain/models/pretrained_weights.h"
#include "dtrain/tasks/classification/head.h"
#include "dtrain/tasks/registry.h"
#include "dtrain/tasks/shared/internal/pretrained_shape.h"
#include "tasks/classification/saved_classifier.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using testing::SavedRun;
using testing::SmallOptions;

TEST_CASE(
    "an exported classifier is a folder of Hugging Face's that loads back to the same weights") {
  SavedRun run;
  const std::string out = run.folder.File("out");
  const auto result = ExportRunToHuggingFace(run.folder.path(), "", out);
  INFO(std::string(result.status().message()));
  REQUIRE(result.ok());
  CHECK(result->class_name == "BertForSequenceClassification");
  CHECK_THAT(result->checkpoint, Catch::EndsWith("step-00000007"));

  const nlohmann::json config = nlohmann::json::parse(ReadTestFile(out + "/config.json"));
  CHECK(config.at("vocab_size") == 9);
  CHECK(config.at("hidden_act") == "gelu_pytorch_tanh");
  CHECK(config.at("hidden_dropout_prob") == 0.2);
  CHECK(config.at("layer_norm_eps") == 1e-12);
  CHECK(config.at("pad_token_id") == 3);
  CHECK(config.at("problem_type") == "single_label_classification");
  CHECK(config.at("id2label").at("2") == "c");
  CHECK(config.at("label2id").at("b") == 1);
  const nlohmann::json tokenizer =
      nlohmann::json::parse(ReadTestFile(out + "/tokenizer_config.json"));
  CHECK(tokenizer.at("tokenizer_class") == "BertTokenizer");
  CHECK(tokenizer.at("do_lower_case") == false);
  CHECK(tokenizer.at("model_max_length") == 16);
  const nlohmann::json special =
      nlohmann::json::parse(ReadTestFile(out + "/special_tokens_map.json"));
  CHECK(special.at("mask_token") == "[MASK]");
  CHECK(ReadTestFile(out + "/vocab.txt").starts_with("[UNK]\n[CLS]\n"));

  BertClassifier loaded(SmallOptions());
  loaded.Allocate({}, DType::kFloat32, /*seed=*/4);
  const PretrainedReport report = *LoadPretrainedWeights(out, loaded.parameters());
  CHECK(report.initialised.empty());
  CHECK(report.unused.empty());
  testing::CheckSameWeights(loaded.parameters(), run.model.parameters());
}

TEST_CASE("an export of Google's tokenizer is told, and loads with it") {
  for (const bool google : {true, false}) {
    SavedRun run(testing::SmallConfig(google ? "tokenizer: google" : "tokenizer: hf"));
    const std::string out = run.folder.File("out");
    std::string log;
    const LogSink before = SetLogSink([&](LogLevel, std::string_view text) { log += text; });
    const bool exported = ExportRunToHuggingFace(run.folder.path(), "", out).ok();
    SetLogSink(before);
    REQUIRE(exported);
    CHECK((log.find("data.tokenizer=google") != std::string::npos) == google);
    proto::ClassificationConfig config;
    config.mutable_model()->set_pretrained(out);
    config.mutable_data()->set_max_length(16);
    REQUIRE(internal::LoadPretrainedShape(config).ok());
    CHECK((config.data().tokenizer() == proto::Tokenization::google) == google);
  }
}

TEST_CASE("the kind of labels is told by transformers' names") {
  const auto problem = [](const std::string& data, const std::string& labels) {
    const SavedRun run(testing::SmallConfig(data), labels);
    REQUIRE(ExportRunToHuggingFace(run.folder.path(), "", run.folder.File("out")).ok());
    return nlohmann::json::parse(ReadTestFile(run.folder.File("out/config.json")));
  };
  CHECK(problem("labels: multi", "a\nb\nc\n").at("problem_type") == "multi_label_classification");
  CHECK(problem("jigsaw: true", "a\nb\nc\n").at("problem_type") == "multi_label_classification");
  CHECK(problem("labels: value", "score\n").at("problem_type") == "regression");
  const nlohmann::json value = problem("labels: value", "");
  CHECK(value.at("problem_type") == "regression");
  CHECK(value.at("id2label").at("0") == "LABEL_0");
}

TEST_CASE("an export keeps the other keys of the config.json that the run began with") {
  const SavedRun run(testing::SmallConfig(), "a\nb\nc\n",
                     {{"pretrained_config.json",
                       R"({"model_type": "bert", "dtype": "bfloat16", "use_cache": true,
                           "hidden_size": 768, "id2label": {"0": "x"}, "our_own": [1, 2]})"}});
  REQUIRE(ExportRunToHuggingFace(run.folder.path(), "", run.folder.File("out")).ok());
  const nlohmann::json config =
      nlohmann::json::parse(ReadTestFile(run.folder.File("out/config.json")));
  CHECK(config.at("use_cache") == true);
  CHECK(config.at("our_own") == nlohmann::json::array({1, 2}));
  // What the run has changed or knows better is the run's.
  CHECK(config.at("hidden_size") == 8);
  CHECK(config.at("id2label").at("0") == "a");
  CHECK(config.at("id2label").size() == 3);
  CHECK_FALSE(config.contains("dtype"));
  CHECK(config.at("torch_dtype") == "float32");
}

TEST_CASE("no export overwrites checkpoints or runs") {
  const SavedRun run;
  const SavedRun other;
  namespace fs = std::filesystem;
  const std::string checkpoint = other.folder.File("ckpt/step-00000007");
  const std::string weights = ReadTestFile(checkpoint + "/model.safetensors");
  const std::string link = run.folder.File("link");
  fs::create_symlink(other.folder.File("ckpt"), link);
  for (const std::string& out :
       {checkpoint, other.folder.File("ckpt/last"), other.folder.File("ckpt/last/"),
        other.folder.File("ckpt"), other.folder.File("ckpt/new"), other.folder.path(),
        link + "/last", link + "/new", checkpoint + "/new"}) {
    INFO(out);
    const Status refused =
        ExportRunToHuggingFace(run.folder.path(), "", out, {.overwrite = true}).status();
    CHECK(refused.code() == ExitCode::kUsage);
    CHECK(refused.message() == out + ": is a checkpoint or a run; name another output folder");
  }
  CHECK(ReadTestFile(checkpoint + "/model.safetensors") == weights);
  CHECK_FALSE(fs::exists(other.folder.File("ckpt/new")));
}

TEST_CASE("an export over one of another kind leaves nothing of it") {
  const SavedRun run;
  const std::string out = run.folder.File("out");
  std::filesystem::create_directory(out);
  for (const char* name : {"config.json", "generation_config.json", "source.spm", "target.spm",
                           "tokenizer.json", "vocab.json", "README.md"}) {
    WriteTestFile(out + "/" + name, "of a translation model");
  }
  WriteTestFile(out + "/config.json", R"({"model_type": "marian"})");
  WriteTestFile(out + "/model.safetensors", "weights");
  REQUIRE(ExportRunToHuggingFace(run.folder.path(), "", out, {.overwrite = true}).ok());
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    names.insert(entry.path().filename());
  }
  CHECK(names == std::set<std::string>{"README.md", "config.json", "model.safetensors",
                                       "special_tokens_map.json", "tokenizer_config.json",
                                       "vocab.txt"});
  CHECK(ReadTestFile(out + "/config.json").starts_with("{"));
}

TEST_CASE("what lies in a folder that never was an export stays there") {
  const SavedRun run;
  for (const std::string json : {"", "{}", "[]", R"({"architectures": )"}) {
    INFO(json);
    const TemporaryFolder folder;
    WriteTestFile(folder.File("vocab.json"), "mine");
    WriteTestFile(folder.File("source.spm"), "mine");
    WriteTestFile(folder.File("vocab.txt"), "mine");
    WriteTestFile(folder.File("model.safetensors"), "mine");
    if (!json.empty()) WriteTestFile(folder.File("config.json"), json);
    REQUIRE(ExportRunToHuggingFace(run.folder.path(), "", folder.path(), {.overwrite = true}).ok());
    CHECK(ReadTestFile(folder.File("vocab.json")) == "mine");
    CHECK(ReadTestFile(folder.File("source.spm")) == "mine");
    CHECK(ReadTestFile(folder.File("vocab.txt")) != "mine");
  }
}

TEST_CASE("a folder in use and a checkpoint of something else are refused") {
  SavedRun run;
  const std::string out = run.folder.File("out");
  REQUIRE(ExportRunToHuggingFace(run.folder.path(), "", out).ok());
  const Status again = ExportRunToHuggingFace(run.folder.path(), "", out).status();
  CHECK(again.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(again.message()), Catch::Contains("is not empty"));
  CHECK(ExportRunToHuggingFace(run.folder.path(), "", out, {.overwrite = true}).ok());
  CHECK(ExportRunToHuggingFace(run.folder.File("none"), "", out).status().code() ==
        ExitCode::kUsage);
  const Status foreign =
      ExportClassifierToHuggingFace(run.folder.File("none"), run.folder.File("x")).status();
  CHECK(foreign.code() == ExitCode::kUsage);
  CHECK_FALSE(std::filesystem::exists(run.folder.File("x")));
}

}  // namespace
}  // namespace dtrain
