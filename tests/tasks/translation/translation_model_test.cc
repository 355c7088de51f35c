// translation_model_test.cc - a trained translation model opened by a program of one's own.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/translation_model.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/comm/self_communicator.h"
#include "dtrain/config/config.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/tasks/translation/options.h"
#include "dtrain/tasks/translation/translator.h"
#include "tasks/shared/saved_weights.h"
#include "testing/catch.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

// A checkpoint as nmt_train writes it, from random weights, without optimizer.
struct SavedTranslation {
  SavedTranslation() {
    proto::NmtConfig config;
    REQUIRE(MergeConfigText("model { encoder_layers: 1 decoder_layers: 1 hidden_size: 16 "
                            "ffn_size: 24 num_heads: 2 max_positions: 64 } "
                            "trainer { beam_alpha: 0.3 precision: fp16 }",
                            "test", "", config)
                .ok());
    SelfCommunicator comm;
    TranslationTaskOptions options = TaskOptionsOf(config, corpus.path(), {});
    options.compute_type = DType::kFloat32;
    task = *TranslationTask::Create(options, comm);
    testing::SaveWeights(task->parameters(), task->CheckpointFiles(), folder.File("ckpt"));
  }
  ToyCorpus corpus;
  TemporaryFolder folder;
  std::unique_ptr<TranslationTask> task;
};

std::vector<std::string> TranslationsOf(const TranslationModel& trained) {
  Context ctx({}, {.compute_type = trained.compute_type});
  const auto translations =
      TranslateLines(*trained.model, *trained.tokenizer, std::vector<std::string>{"abc", "hgf edc"},
                     *trained.search, ctx);
  std::vector<std::string> texts;
  for (const auto& translation : translations) texts.push_back(translation.at(0).text);
  return texts;
}

TEST_CASE("a translation model comes with the weights, tokenizer and settings of its run") {
  const SavedTranslation run;
  const auto trained = LoadTranslationModel(run.folder.path());
  INFO(std::string(trained.status().message()));
  REQUIRE(trained.ok());
  CHECK(trained->step == 7);
  CHECK_THAT(trained->path, Catch::EndsWith("step-00000007"));
  CHECK(trained->search->alpha == 0.3f);
  CHECK(trained->compute_type == DType::kFloat32);
  CHECK_THAT(trained->config_text, Catch::Contains("beam_alpha: 0.3"));
  testing::CheckSameWeights(trained->model->parameters(), run.task->parameters());
}

TEST_CASE("a translation model asked for in float16 computes in float32 on a CPU, and says so") {
  const SavedTranslation run;
  const auto wide = LoadTranslationModel(run.folder.path());
  const auto trained = LoadTranslationModel(run.folder.path(), {.compute_type = DType::kFloat16});
  REQUIRE(wide.ok());
  REQUIRE(trained.ok());
  CHECK(trained->compute_type == DType::kFloat32);
  CHECK(TranslationsOf(*trained) == TranslationsOf(*wide));
}

TEST_CASE("what nmt_train did not write is no translation model") {
  const SavedTranslation run;
  const std::string checkpoint = run.folder.File("ckpt/step-00000007");
  REQUIRE(std::filesystem::remove(checkpoint + "/vocab.spm"));
  const Status status = LoadTranslationModel(checkpoint).status();
  CHECK(status.code() == ExitCode::kStorage);
  CHECK_THAT(std::string(status.message()), Catch::Contains("vocab.spm"));
  CHECK(LoadTranslationModel(run.folder.File("none")).status().code() == ExitCode::kUsage);
}

}  // namespace
}  // namespace dtrain
