// export_test.cc - what the folder of an exported model that answers questions holds.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/export.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/models/pretrained_weights.h"
#include "dtrain/tasks/question_answering/head.h"
#include "dtrain/tasks/question_answering/task.h"
#include "dtrain/tasks/registry.h"
#include "tasks/question_answering/saved_answers.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using testing::SavedAnswers;
using testing::SmallOptions;

nlohmann::json ReadJson(const std::string& path) {
  return nlohmann::json::parse(ReadTestFile(path));
}

TEST_CASE("exported question answering is a folder that loads back to the same weights") {
  SavedAnswers run;
  const std::string out = run.folder.File("out");
  const auto result = ExportRunToHuggingFace(run.folder.path(), "", out);
  INFO(std::string(result.status().message()));
  REQUIRE(result.ok());
  CHECK(result->class_name == "BertForQuestionAnswering");
  CHECK_THAT(result->checkpoint, Catch::EndsWith("step-00000007"));

  const nlohmann::json config = ReadJson(out + "/config.json");
  CHECK(config.at("architectures") == nlohmann::json({"BertForQuestionAnswering"}));
  CHECK(config.at("model_type") == "bert");
  CHECK(config.at("vocab_size") == 9);
  CHECK(config.at("num_hidden_layers") == 1);
  CHECK(config.at("hidden_act") == "gelu_pytorch_tanh");
  CHECK(config.at("hidden_dropout_prob") == 0.2);
  CHECK(config.at("pad_token_id") == 3);
  // What is of classifiers alone.
  for (const char* const key : {"classifier_dropout", "problem_type", "id2label", "label2id"}) {
    INFO(key);
    CHECK_FALSE(config.contains(key));
  }
  const nlohmann::json tokenizer = ReadJson(out + "/tokenizer_config.json");
  CHECK(tokenizer.at("tokenizer_class") == "BertTokenizer");
  CHECK(tokenizer.at("do_lower_case") == false);
  CHECK(tokenizer.at("strip_accents").is_null());
  CHECK(tokenizer.at("model_max_length") == 16);
  CHECK(ReadJson(out + "/special_tokens_map.json").at("mask_token") == "[MASK]");
  CHECK(ReadTestFile(out + "/vocab.txt").starts_with("[UNK]\n[CLS]\n"));

  BertQuestionAnswering loaded(SmallOptions().bert);
  loaded.Allocate({}, DType::kFloat32, /*seed=*/4);
  const PretrainedReport report = *LoadPretrainedWeights(out, loaded.parameters());
  CHECK(report.initialised.empty());
  CHECK(report.unused.empty());
  testing::CheckSameWeights(loaded.parameters(), run.model.parameters());
}

TEST_CASE("an exported tokenizer treats accents as the questions were treated") {
  const auto accents = [](const std::string& data) {
    const SavedAnswers run("max_length: 16 " + data);
    REQUIRE(ExportRunToHuggingFace(run.folder.path(), "", run.folder.File("out")).ok());
    return ReadJson(run.folder.File("out/tokenizer_config.json")).at("strip_accents");
  };
  CHECK(accents("accents: strip") == true);
  CHECK(accents("accents: keep") == false);
}

TEST_CASE("question answering is exported neither into a folder in use nor from a classifier") {
  SavedAnswers run;
  const std::string out = run.folder.File("out");
  REQUIRE(ExportRunToHuggingFace(run.folder.path(), "", out).ok());
  const Status again = ExportRunToHuggingFace(run.folder.path(), "", out).status();
  CHECK(again.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(again.message()), Catch::Contains("is not empty"));
  CHECK(ExportRunToHuggingFace(run.folder.path(), "", out, {.overwrite = true}).ok());

  const testing::SavedRun classifier;
  const Status foreign =
      ExportSquadToHuggingFace(classifier.folder.path(), run.folder.File("x")).status();
  CHECK(foreign.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(foreign.message()), Catch::Contains("answers.txt"));
}

TEST_CASE("what a classifier learned starts question answering, and the other way round") {
  const std::vector<std::string> heads = {"qa_outputs.bias", "qa_outputs.weight"};
  const std::vector<std::string> pooled = {"bert.pooler.dense.bias", "bert.pooler.dense.weight",
                                           "classifier.bias", "classifier.weight"};
  testing::SavedRun classifier;
  const std::string exported = classifier.folder.File("out");
  REQUIRE(ExportRunToHuggingFace(classifier.folder.path(), "", exported).ok());
  for (const std::string& from :
       {exported, classifier.folder.File("ckpt/last/model.safetensors")}) {
    INFO(from);
    BertQuestionAnswering model(SmallOptions().bert);
    model.Allocate({}, DType::kFloat32, /*seed=*/4);
    const PretrainedReport report =
        *LoadPretrainedWeights(from, model.parameters(), {.may_be_new = {"qa_outputs."}});
    CHECK(report.initialised == heads);
    CHECK(report.unused == pooled);
  }

  SavedAnswers answers;
  BertClassifier model(SmallOptions());
  model.Allocate({}, DType::kFloat32, /*seed=*/4);
  const std::string weights = answers.folder.File("ckpt/last/model.safetensors");
  // It has no pooler, which a classifier does not start without unasked.
  CHECK_FALSE(LoadPretrainedWeights(weights, model.parameters()).ok());
  const PretrainedReport report =
      *LoadPretrainedWeights(weights, model.parameters(), {.allow_missing = true});
  CHECK(report.initialised == pooled);
  CHECK(report.unused == heads);
}

}  // namespace
}  // namespace dtrain
