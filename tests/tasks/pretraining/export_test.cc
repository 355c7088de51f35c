// export_test.cc - what the folder of an exported pre-trained model holds.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/export.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/models/pretrained_weights.h"
#include "dtrain/tasks/pretraining/head.h"
#include "dtrain/tasks/question_answering/head.h"
#include "dtrain/tasks/registry.h"
#include "tasks/classification/saved_classifier.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using testing::SmallConfig;
using testing::SmallOptions;

// A checkpoint as bert_pretrain writes it, from random weights.
struct SavedPretraining {
  explicit SavedPretraining(bool pairs, const std::string& next_sentence = "")
      : model({.bert = SmallOptions().bert, .next_sentence = pairs}) {
    model.Allocate({}, DType::kFloat32, /*seed=*/3);
    const std::string said = next_sentence.empty() ? (pairs ? "true" : "false") : next_sentence;
    testing::SaveWeights(model.parameters(),
                         {{"config.textproto", SmallConfig("max_length: 16 lower_case: false "
                                                           "next_sentence: " +
                                                           said)},
                          {"vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nx\n"}},
                         folder.File("ckpt"));
  }
  // The class, or the message.
  std::string Export() const {
    const auto result = ExportRunToHuggingFace(folder.path(), "", folder.File("out"));
    return result.ok() ? result->class_name : std::string(result.status().message());
  }
  nlohmann::json Exported(const std::string& name) const {
    return nlohmann::json::parse(ReadTestFile(folder.File("out/" + name)));
  }

  TemporaryFolder folder;
  BertPretraining model;
};

TEST_CASE("an exported pre-trained model is a folder that loads back to the same weights") {
  const bool pairs = GENERATE(true, false);
  const std::string class_name = pairs ? "BertForPreTraining" : "BertForMaskedLM";
  INFO(class_name);
  SavedPretraining run(pairs);
  REQUIRE(run.Export() == class_name);

  const nlohmann::json config = run.Exported("config.json");
  CHECK(config.at("architectures") == nlohmann::json::array({class_name}));
  CHECK(config.at("vocab_size") == 9);
  CHECK(config.at("hidden_act") == "gelu_pytorch_tanh");
  CHECK(config.at("tie_word_embeddings") == true);
  CHECK_FALSE(config.contains("classifier_dropout"));
  CHECK(run.Exported("tokenizer_config.json").at("do_lower_case") == false);
  CHECK(run.Exported("tokenizer_config.json").at("model_max_length") == 16);
  CHECK(run.Exported("special_tokens_map.json").at("mask_token") == "[MASK]");
  CHECK(ReadTestFile(run.folder.File("out/vocab.txt")).starts_with("[UNK]\n[CLS]\n"));

  BertPretraining loaded({.bert = SmallOptions().bert, .next_sentence = pairs});
  loaded.Allocate({}, DType::kFloat32, /*seed=*/4);
  const PretrainedReport report =
      *LoadPretrainedWeights(run.folder.File("out"), loaded.parameters());
  CHECK(report.initialised.empty());
  CHECK(report.unused.empty());
  testing::CheckSameWeights(loaded.parameters(), run.model.parameters());
}

TEST_CASE("a folder in use, and weights of another pre-training, are not exported") {
  const SavedPretraining run(true);
  REQUIRE(run.Export() == "BertForPreTraining");
  CHECK_THAT(run.Export(), Catch::Contains("is not empty"));
  const SavedPretraining other(/*pairs=*/true, /*next_sentence=*/"false");
  CHECK_THAT(other.Export(), Catch::Contains("next_sentence=false"));
  const testing::SavedRun classifier(SmallConfig("max_length: 16"));
  const Status foreign =
      ExportPretrainingToHuggingFace(classifier.folder.path(), run.folder.File("x")).status();
  CHECK(foreign.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(foreign.message()),
             Catch::Contains("holds labels.txt, so it is one of another program"));
}

TEST_CASE("fine-tuning starts from a pre-trained folder and from a run's weights alike") {
  const SavedPretraining run(true);
  REQUIRE(run.Export() == "BertForPreTraining");
  const auto is_head = [](const std::string& name) { return name.starts_with("cls."); };
  for (const std::string from : {"out", "ckpt/last/model.safetensors"}) {
    INFO(from);
    BertClassifier classifier(SmallOptions());
    classifier.Allocate({}, DType::kFloat32, /*seed=*/4);
    const PretrainedReport pooled =
        *LoadPretrainedWeights(run.folder.File(from), classifier.parameters());
    CHECK(pooled.initialised == std::vector<std::string>{"classifier.bias", "classifier.weight"});
    CHECK(pooled.unused.size() == 7);
    CHECK(std::all_of(pooled.unused.begin(), pooled.unused.end(), is_head));

    BertQuestionAnswering answers(SmallOptions().bert);
    answers.Allocate({}, DType::kFloat32, /*seed=*/4);
    const PretrainedReport spans = *LoadPretrainedWeights(
        run.folder.File(from), answers.parameters(), {.may_be_new = {"qa_outputs."}});
    CHECK(spans.initialised == std::vector<std::string>{"qa_outputs.bias", "qa_outputs.weight"});
    CHECK(spans.unused.size() == 9);  // the pooler as well
  }
}

}  // namespace
}  // namespace dtrain
