// classification_model_test.cc - a trained classifier opened by a program of one's own.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/classification_model.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tasks/classification/saved_classifier.h"

namespace dtrain {
namespace {

using testing::SavedRun;

// The vocabulary is [UNK] [CLS] [SEP] [PAD] [MASK] x.
std::vector<float> ProbabilitiesOf(BertClassifier& model, const std::vector<int32_t>& ids,
                                   int64_t type0_size) {
  ClassificationBatch batch;
  batch.AppendTokens(ids, type0_size);
  batch.sequences = Sequences({0, static_cast<int32_t>(ids.size())});
  batch.labels = {0.0f};
  batch.weights = {1.0f};
  batch.rows = {0};
  Context ctx;
  ClassificationOutputs outputs;
  model.Forward(batch, ctx, &outputs);
  return outputs.probabilities;
}

// Products of other shapes add in another order.
bool Near(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return std::abs(x - y) < 1e-6f; });
}

std::vector<float> Row(const ClassificationPredictions& predictions, int64_t i) {
  return {predictions.row(i).begin(), predictions.row(i).end()};
}

TEST_CASE("texts get the answers that the trained model gives, in their own order") {
  SavedRun run;
  const auto trained = LoadClassificationModel(run.folder.path());
  INFO(std::string(trained.status().message()));
  REQUIRE(trained.ok());
  CHECK(trained->step == 7);
  CHECK_THAT(trained->path, Catch::EndsWith("step-00000007"));
  CHECK(trained->label_kind == LabelKind::kClass);
  CHECK(trained->label_names == std::vector<std::string>{"a", "b", "c"});
  CHECK_THAT(trained->config_text, Catch::Contains("gelu_tanh"));
  Context ctx;
  const auto answers = ClassifyTexts(*trained, {{"x"}, {"x x y"}, {""}}, ctx);
  REQUIRE(answers.rows() == 3);
  REQUIRE(answers.outputs == 3);
  CHECK(Near(Row(answers, 0), ProbabilitiesOf(*trained->model, {1, 5, 2}, 3)));
  CHECK(Near(Row(answers, 1), ProbabilitiesOf(*trained->model, {1, 5, 5, 0, 2}, 5)));
  CHECK(Near(Row(answers, 2), ProbabilitiesOf(*trained->model, {1, 2}, 2)));
  // The weights are those that were saved.
  const auto pairs = ClassifyTexts(*trained, {{"x", "x x"}, {"", "x"}}, ctx);
  CHECK(Near(Row(pairs, 0), ProbabilitiesOf(run.model, {1, 5, 2, 5, 5, 2}, 3)));
  CHECK(Near(Row(pairs, 1), ProbabilitiesOf(run.model, {1, 2, 5, 2}, 2)));
  CHECK(ClassifyTexts(*trained, std::vector<ClassifiedText>(), ctx).rows() == 0);
}

TEST_CASE("texts are cut at the length the run was trained with, whatever the batches") {
  const SavedRun run(testing::SmallConfig("max_length: 6"));
  const auto trained = LoadClassificationModel(run.folder.path());
  REQUIRE(trained.ok());
  CHECK(trained->max_length == 6);
  const std::vector<ClassifiedText> texts = {{"x x x x x x x x x"}, {"x"}, {"x x x x"}, {"x x"}};
  Context ctx;
  const auto together = ClassifyTexts(*trained, texts, ctx);
  const auto alone = ClassifyTexts(*trained, texts, ctx, /*batch_tokens=*/1);
  CHECK(Near(Row(together, 0), Row(together, 2)));
  for (int64_t i = 0; i < together.rows(); ++i) {
    CHECK(Near(Row(together, i), Row(alone, i)));
  }
  CHECK_FALSE(Near(Row(together, 1), Row(together, 3)));
}

TEST_CASE("values and several labels come out as they were trained") {
  const SavedRun values(testing::SmallConfig("labels: value"), "");
  const auto regression = LoadClassificationModel(values.folder.path());
  REQUIRE(regression.ok());
  CHECK(regression->label_kind == LabelKind::kValue);
  CHECK(regression->label_names.empty());
  const SavedRun several(testing::SmallConfig("labels: multi"));
  const auto multi = LoadClassificationModel(several.folder.path());
  REQUIRE(multi.ok());
  CHECK(multi->label_kind == LabelKind::kMultiLabel);
  Context ctx;
  const auto scores = ClassifyTexts(*multi, {{"x"}}, ctx);
  const auto classes =
      ClassifyTexts(*LoadClassificationModel(SavedRun().folder.path()), {{"x"}}, ctx);
  CHECK(Row(scores, 0)[0] + Row(scores, 0)[1] + Row(scores, 0)[2] != Approx(1.0f));
  CHECK(Row(classes, 0)[0] + Row(classes, 0)[1] + Row(classes, 0)[2] == Approx(1.0f));
}

TEST_CASE("a classifier asked for in float16 computes in float32 on a CPU, and says so") {
  const SavedRun run;
  const auto wide = LoadClassificationModel(run.folder.path());
  const auto trained =
      LoadClassificationModel(run.folder.path(), {.compute_type = DType::kFloat16});
  REQUIRE(wide.ok());
  REQUIRE(trained.ok());
  CHECK(trained->compute_type == DType::kFloat32);
  Context ctx({}, {.compute_type = trained->compute_type});
  CHECK(Row(ClassifyTexts(*trained, {{"x"}}, ctx), 0) ==
        Row(ClassifyTexts(*wide, {{"x"}}, ctx), 0));
}

TEST_CASE("a checkpoint of something else is refused by the name of what it lacks") {
  SavedRun run;
  const std::string checkpoint = run.folder.File("ckpt/step-00000007");
  REQUIRE(std::filesystem::remove(checkpoint + "/labels.txt"));
  const Status status = LoadClassificationModel(checkpoint).status();
  CHECK(status.code() == ExitCode::kStorage);
  CHECK_THAT(std::string(status.message()), Catch::Contains("labels.txt"));
  CHECK(LoadClassificationModel(run.folder.File("none")).status().code() == ExitCode::kUsage);
}

}  // namespace
}  // namespace dtrain
