// window_scores.cc - packs windows, puts the ranks' scores together, and measures answers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/window_scores.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/data/batching.h"
#include "dtrain/tasks/question_answering/metrics.h"

namespace dtrain {

StatusOr<SquadRows> OpenSquad(const std::vector<std::string>& paths, SquadAnswers answers,
                              const TextTokenizer& tokenizer, const SquadWindowOptions& options,
                              InvalidText invalid) {
  DT_ASSIGN_OR_RETURN(SquadSet set, ReadSquad(paths, answers, invalid));
  DT_ASSIGN_OR_RETURN(SquadWindows windows, SquadWindows::Create(set, tokenizer, options));
  return SquadRows{std::move(set), std::move(windows)};
}

SpanBatch PackWindows(const SquadWindows& windows, std::span<const uint32_t> rows) {
  SpanBatch batch;
  std::vector<int32_t> offsets = {0};
  for (const uint32_t row : rows) {
    batch.AppendTokens(windows.ids(row), windows.type0_size(row));
    offsets.push_back(static_cast<int32_t>(batch.token_ids.size()));
    batch.rows.push_back(row);
  }
  for (const uint32_t row : rows) batch.targets.push_back(windows.window(row).start);
  for (const uint32_t row : rows) batch.targets.push_back(windows.window(row).end);
  batch.sequences = Sequences(std::move(offsets));
  return batch;
}

WindowScores ScoreWindows(BertQuestionAnswering& model, const SquadWindows& windows,
                          int64_t batch_tokens, Communicator& comm, Context& ctx) {
  DT_CHECK(!ctx.training()) << "scores are taken without dropout";
  WindowScores scores;
  scores.offsets = {0};
  for (const int32_t length : windows.lengths()) {
    scores.offsets.push_back(scores.offsets.back() + length);
  }
  scores.start.resize(static_cast<size_t>(scores.offsets.back()));
  scores.end.resize(scores.start.size());
  scores.losses.resize(static_cast<size_t>(windows.size()));
  for (const std::vector<uint32_t>& rows : EvaluationBatches(
           {.source = windows.lengths(), .added = 0}, batch_tokens, comm.rank(), comm.size())) {
    const SpanBatch batch = PackWindows(windows, rows);
    SpanScores of_batch;
    model.Forward(batch, ctx, &of_batch);
    for (size_t i = 0; i < rows.size(); ++i) {
      const int32_t begin = batch.sequences.begin(static_cast<int64_t>(i));
      const int32_t end = batch.sequences.end(static_cast<int64_t>(i));
      const int64_t to = scores.offsets[rows[i]];
      std::copy(of_batch.start.begin() + begin, of_batch.start.begin() + end,
                scores.start.begin() + to);
      std::copy(of_batch.end.begin() + begin, of_batch.end.begin() + end, scores.end.begin() + to);
      scores.losses[rows[i]] = of_batch.losses[i];
    }
  }
  // One rank has a window, the others have zeros there: the sums are exact.
  comm.AllReduce(std::span(scores.start), ReduceOp::kSum);
  comm.AllReduce(std::span(scores.end), ReduceOp::kSum);
  comm.AllReduce(std::span(scores.losses), ReduceOp::kSum);
  return scores;
}

std::vector<SquadPrediction> AnswersOf(const SquadRows& rows, const WindowScores& scores,
                                       const SquadAnswerOptions& options) {
  const int64_t questions = rows.windows.num_questions();
  std::vector<SquadPrediction> answers(static_cast<size_t>(questions));
  ParallelFor(questions, /*grain=*/16, [&](int64_t begin, int64_t end) {
    std::vector<SquadLogits> logits;
    for (int64_t q = begin; q < end; ++q) {
      logits.clear();
      const SquadWindowRange range = rows.windows.WindowsOf(q);
      for (int64_t w = range.begin; w < range.end; ++w) {
        logits.push_back({scores.start_of(w), scores.end_of(w)});
      }
      answers[static_cast<size_t>(q)] = AnswerOf(rows.set, rows.windows, q, logits, options);
    }
  });
  return answers;
}

namespace {

// What the metrics take: where no answer is allowed, the best text that is one, which the threshold
// then accepts or not.
SquadGrade GradeOf(const SquadQuestion& question, const SquadPrediction& prediction,
                   bool allow_none) {
  SquadGrade grade{.golds = {}, .prediction = prediction.text, .null_odds = prediction.null_odds};
  for (const SquadAnswer& answer : question.answers) grade.golds.push_back(answer.text);
  if (!allow_none) return grade;
  const auto best = std::find_if(prediction.candidates.begin(), prediction.candidates.end(),
                                 [](const SquadCandidate& c) { return !c.text.empty(); });
  grade.prediction = best == prediction.candidates.end() ? "" : best->text;
  return grade;
}

double MeanLoss(const SquadWindows& windows, const std::vector<float>& losses) {
  double sum = 0.0;
  int64_t known = 0;
  for (int64_t i = 0; i < windows.size(); ++i) {
    if (!windows.window(i).has_label) continue;
    sum += double{losses[static_cast<size_t>(i)]};
    ++known;
  }
  // Zero by zero would be a NaN with a sign, which people see.
  if (known == 0) return std::numeric_limits<double>::quiet_NaN();
  return sum / static_cast<double>(known);
}

RowValues RowsOf(const std::vector<SquadGrade>& grades) {
  RowValues values;
  std::vector<float> exact;
  std::vector<float> f1;
  for (size_t q = 0; q < grades.size(); ++q) {
    const SquadScores one = ScoreSquad(std::span(&grades[q], 1));
    values.rows.push_back(static_cast<int32_t>(q));
    exact.push_back(static_cast<float>(one.exact));
    f1.push_back(static_cast<float>(one.f1));
  }
  const std::vector<float> ones(grades.size(), 1.0F);
  values.AddRatio("f1", std::move(f1), ones);
  values.AddRatio("exact_match", std::move(exact), ones);
  return values;
}

}  // namespace

std::vector<std::string> SquadMetricNames(bool allow_none) {
  std::vector<std::string> names = {"loss", "f1", "exact_match"};
  if (allow_none) {
    for (const char* const name :
         {"has_answer_f1", "has_answer_exact", "no_answer_exact", "best_f1", "best_f1_threshold"}) {
      names.emplace_back(name);
    }
  }
  return names;
}

EvaluationResult EvaluateSquad(const SquadRows& rows, const WindowScores& scores,
                               const std::vector<SquadPrediction>& predictions,
                               const SquadAnswerOptions& options) {
  DT_CHECK_EQ(predictions.size(), rows.set.questions.size());
  std::vector<SquadGrade> grades;
  for (size_t q = 0; q < predictions.size(); ++q) {
    grades.push_back(GradeOf(rows.set.questions[q], predictions[q], options.allow_none));
  }
  std::vector<double> values = {MeanLoss(rows.windows, scores.losses)};
  if (options.allow_none) {
    const Squad2Scores all = ScoreSquad2(grades, double{options.null_threshold});
    values.insert(values.end(), {all.all.f1, all.all.exact, all.has_answer.f1, all.has_answer.exact,
                                 all.no_answer.exact, all.best_f1, all.best_f1_threshold});
  } else {
    const SquadScores all = ScoreSquad(grades);
    values.insert(values.end(), {all.f1, all.exact});
  }
  const std::vector<std::string> names = SquadMetricNames(options.allow_none);
  EvaluationResult result;
  // The questions of 2.0 have a threshold, below which the answer is another.
  if (!options.allow_none) result.rows = RowsOf(grades);
  for (size_t i = 0; i < names.size(); ++i) result.metrics.emplace_back(names[i], values[i]);
  return result;
}

}  // namespace dtrain
