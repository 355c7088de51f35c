// question_answering_model_test.cc - a model that answers questions, asked by another program.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/question_answering_model.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tasks/question_answering/saved_answers.h"

namespace dtrain {
namespace {

using testing::SavedAnswers;

// The vocabulary is [UNK] [CLS] [SEP] [PAD] [MASK] x.
constexpr char kData[] = "max_length: 12 max_question: 3 stride: 2 lower_case: false";

TEST_CASE("a question gets the best of what the trained model says of its text") {
  const SavedAnswers run(kData);
  const auto trained = LoadQuestionAnsweringModel(run.folder.path());
  INFO(std::string(trained.status().message()));
  REQUIRE(trained.ok());
  CHECK(trained->step == 7);
  CHECK_THAT(trained->path, Catch::EndsWith("step-00000007"));
  CHECK(trained->windows.max_length == 12);
  CHECK(trained->windows.stride == 2);
  CHECK_FALSE(trained->answers.allow_none);
  Context ctx;
  const auto answers =
      AnswerQuestions(*trained, {{"x", "x yy x"}, {"x x", "x yy x"}, {"x", "zzz"}}, ctx);
  REQUIRE(answers.ok());
  REQUIRE(answers->size() == 3);
  // The scores are those of the model for this very row.
  SpanBatch row;
  row.AppendTokens(std::vector<int32_t>{1, 5, 2, 5, 0, 5, 2}, /*type0_size=*/3);
  row.sequences = Sequences({0, 7});
  row.targets = {-1, -1};
  row.rows = {0};
  SpanScores scores;
  trained->model->Forward(row, ctx, &scores);
  double best = -1e30;
  std::string text;
  const std::string texts[3][3] = {{"x", "x yy", "x yy x"}, {"", "yy", "yy x"}, {"", "", "x"}};
  for (size_t start = 0; start < 3; ++start) {
    for (size_t end = start; end < 3; ++end) {
      const double score = double{scores.start[3 + start]} + double{scores.end[3 + end]};
      if (score <= best) continue;
      best = score;
      text = texts[start][end];
    }
  }
  CHECK(answers->at(0).text == text);
  const SquadCandidate& candidate = answers->at(0).candidates[0];
  CHECK(candidate.start_logit + candidate.end_logit == Approx(best).margin(1e-5));
  CHECK(answers->at(2).text == "zzz");
}

TEST_CASE("answers are the same whatever the batches, and there may be no question") {
  const SavedAnswers run(kData);
  const auto trained = LoadQuestionAnsweringModel(run.folder.path());
  REQUIRE(trained.ok());
  const std::vector<AskedQuestion> questions = {
      {"x", "x y x y x y x y x y x y"}, {"x y", "x"}, {"", "y x"}, {"x", ""}};
  Context ctx;
  const auto together = AnswerQuestions(*trained, questions, ctx);
  const auto alone = AnswerQuestions(*trained, questions, ctx, /*batch_tokens=*/1);
  REQUIRE(together.ok());
  REQUIRE(alone.ok());
  for (size_t i = 0; i < questions.size(); ++i) CHECK(together->at(i).text == alone->at(i).text);
  CHECK(together->at(3).text.empty());
  CHECK(AnswerQuestions(*trained, std::vector<AskedQuestion>(), ctx)->empty());
}

TEST_CASE("a model asked for in float16 answers in float32 on a CPU, and says so") {
  const SavedAnswers run(kData);
  const auto wide = LoadQuestionAnsweringModel(run.folder.path());
  const auto trained =
      LoadQuestionAnsweringModel(run.folder.path(), {.compute_type = DType::kFloat16});
  REQUIRE(wide.ok());
  REQUIRE(trained.ok());
  CHECK(trained->compute_type == DType::kFloat32);
  Context ctx({}, {.compute_type = trained->compute_type});
  CHECK(AnswerQuestions(*trained, {{"x", "x yy x"}}, ctx)->at(0).text ==
        AnswerQuestions(*wide, {{"x", "x yy x"}}, ctx)->at(0).text);
}

TEST_CASE("a vocabulary that cannot be one is a fault of its checkpoint") {
  const TemporaryFolder folder;
  BertQuestionAnswering model(testing::SmallOptions().bert);
  model.Allocate({}, DType::kFloat32, /*seed=*/3);
  testing::SaveWeights(model.parameters(),
                       {{"config.textproto", testing::SmallConfig(kData)},
                        {"vocab.txt", "x\n"},
                        {"answers.txt", AnswersText(false)}},
                       folder.File("ckpt"));
  const Status status = LoadQuestionAnsweringModel(folder.path()).status();
  CHECK(status.code() == ExitCode::kStorage);
  CHECK_THAT(std::string(status.message()), Catch::Contains("vocab.txt"));
}

TEST_CASE("what bert_squad did not write is no model that answers") {
  const TemporaryFolder folder;
  const auto none = LoadQuestionAnsweringModel(folder.path());
  CHECK(none.status().code() == ExitCode::kUsage);
  const testing::SavedRun classifier;
  const auto other = LoadQuestionAnsweringModel(classifier.folder.path());
  CHECK(other.status().code() == ExitCode::kUsage);
  CHECK_THAT(std::string(other.status().message()), Catch::Contains("bert_squad"));
}

}  // namespace
}  // namespace dtrain
