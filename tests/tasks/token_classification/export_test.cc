// export_test.cc - what the folder of an exported tagger holds.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/export.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "dtrain/models/pretrained_weights.h"
#include "dtrain/tasks/pretraining/export.h"
#include "dtrain/tasks/registry.h"
#include "dtrain/tasks/token_classification/head.h"
#include "tasks/shared/saved_weights.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

BertTokenClassifierOptions SmallOptions() {
  return {.bert = {.vocab_size = 9,
                   .hidden_size = 8,
                   .num_layers = 1,
                   .num_heads = 2,
                   .ffn_size = 12,
                   .max_positions = 16},
          .num_tags = 3};
}

// A checkpoint as bert_tag writes it, from random weights.
struct SavedTagger {
  SavedTagger() : model(SmallOptions()) {
    model.Allocate({}, DType::kFloat32, /*seed=*/3);
    testing::SaveWeights(
        model.parameters(),
        {{"config.textproto",
          "model { num_layers: 1 hidden_size: 8 num_heads: 2 ffn_size: 12 max_positions: 16 "
          "vocab_size: 9 }\ndata { lower_case: false max_length: 16 word_column: 1 }\n"},
         {"vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nx\n"},
         {"tags.txt", "O\nB-PER\nI-PER\n"}},
        folder.File("ckpt"));
  }
  TemporaryFolder folder;
  BertTokenClassifier model;
};

TEST_CASE("an exported tagger is a folder that loads back to the same weights") {
  SavedTagger run;
  const std::string out = run.folder.File("out");
  const auto result = ExportRunToHuggingFace(run.folder.path(), "", out);
  INFO(std::string(result.status().message()));
  REQUIRE(result.ok());
  CHECK(result->class_name == "BertForTokenClassification");
  const nlohmann::json config = nlohmann::json::parse(ReadTestFile(out + "/config.json"));
  CHECK(config.at("architectures") == nlohmann::json({"BertForTokenClassification"}));
  CHECK(config.at("id2label") == nlohmann::json({{"0", "O"}, {"1", "B-PER"}, {"2", "I-PER"}}));
  CHECK(config.at("label2id").at("I-PER") == 2);
  BertTokenClassifier loaded(SmallOptions());
  loaded.Allocate({}, DType::kFloat32, /*seed=*/4);
  const PretrainedReport report = *LoadPretrainedWeights(out, loaded.parameters());
  CHECK(report.initialised.empty());
  CHECK(report.unused.empty());
  testing::CheckSameWeights(loaded.parameters(), run.model.parameters());
}

TEST_CASE("another program refuses a tagger's checkpoint") {
  const SavedTagger run;
  const Status status =
      ExportPretrainingToHuggingFace(run.folder.path(), run.folder.File("x")).status();
  CHECK(status.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(status.message()), Catch::Contains("holds tags.txt"));
}

}  // namespace
}  // namespace dtrain
