// data_parallel_test.cc - N ranks with batches of B are one rank with a batch of N * B.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/ops/cast.h"
#include "testing/catch.h"
#include "testing/tolerance.h"
#include "testing/toy_training.h"
#include "testing/translation_batches.h"

namespace dtrain {
namespace {

using testing::Pack;
using testing::RandomPairs;
using testing::RunRanks;
using testing::SentencePair;

// Pairs [first, second) that one micro-batch takes, by rank and micro-batch.
using Share = std::vector<std::pair<size_t, size_t>>;

Seq2SeqOptions SmallOptions(bool pre_norm) {
  return {.vocab_size = 61,
          .encoder_layers = 2,
          .decoder_layers = 2,
          .hidden_size = 32,
          .ffn_size = 48,
          .num_heads = 4,
          .pre_norm = pre_norm,
          .dropout = 0.0f,
          .max_positions = 64};
}

struct Update {
  std::vector<float> gradients = {};  // of the mean loss over all ranks' target tokens
  double loss = 0.0;
  double tokens = 0.0;
};

// One update of this rank's share of `pairs`: reduced while the last micro-batch goes backward,
// then divided by the target tokens of all ranks.
Update OneUpdate(Communicator& comm, const std::vector<SentencePair>& pairs, const Share& share,
                 bool pre_norm) {
  Seq2SeqTransformer model(SmallOptions(pre_norm));
  model.Allocate(testing::TestDevice(), DType::kFloat32, /*seed=*/3);
  ParameterSet& parameters = model.parameters();
  GradientReducer reducer(parameters, comm,
                          {.bucket_bytes = 16 << 10, .first_bucket_bytes = 4 << 10});
  Context ctx(testing::TestDevice());
  ctx.set_training(true);
  LossSums sums;
  for (size_t i = 0; i < share.size(); ++i) {
    sums +=
        model.Forward(Pack(pairs, share[i].first, share[i].second, model.options().pad_id()), ctx);
    if (i + 1 == share.size()) reducer.Listen();
    model.Backward(ctx);
  }
  reducer.StopListening();
  reducer.Finish();
  double totals[] = {sums.loss, static_cast<double>(sums.tokens)};
  reducer.ReduceScalars(totals);
  Update update{.loss = totals[0], .tokens = totals[1]};
  const float* const gradients = parameters.gradients().data<float>();
  for (int64_t i = 0; i < parameters.size(); ++i) {
    update.gradients.push_back(gradients[i] / static_cast<float>(totals[1]));
  }
  return update;
}

// Difference of two updates relative to the largest gradient.
double Distance(const Update& a, const Update& b) {
  double worst = 0.0;
  double largest = 0.0;
  for (size_t i = 0; i < b.gradients.size(); ++i) {
    if (std::isnan(a.gradients[i])) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(double{a.gradients[i]} - double{b.gradients[i]}));
    largest = std::max(largest, std::abs(double{b.gradients[i]}));
  }
  return worst / largest;
}

void CheckEqualsOneRank(const std::vector<SentencePair>& pairs, const std::vector<Share>& shares) {
  for (const bool pre_norm : {false, true}) {
    const Share all = {{0, pairs.size()}};
    const Update one =
        RunRanks(1, [&](Communicator& comm) { return OneUpdate(comm, pairs, all, pre_norm); })[0];
    const auto updates = RunRanks(static_cast<int>(shares.size()), [&](Communicator& comm) {
      return OneUpdate(comm, pairs, shares[static_cast<size_t>(comm.rank())], pre_norm);
    });
    INFO(shares.size() << " ranks, pre_norm " << pre_norm);
    for (const Update& update : updates) {
      CHECK(update.tokens == one.tokens);
      CHECK(update.loss == Approx(one.loss).epsilon(1e-6));
      CHECK(Distance(update, one) < 2e-6);
      CHECK(update.gradients == updates[0].gradients);  // the same bits on every rank
    }
  }
}

TEST_CASE("gradients of N ranks with B pairs each are those of one rank with N * B") {
  const auto pairs = RandomPairs(8, 12, 61, 21);
  CheckEqualsOneRank(pairs, {{{0, 4}}, {{4, 8}}});
  CheckEqualsOneRank(pairs, {{{0, 2}}, {{2, 4}}, {{4, 6}}, {{6, 8}}});
}

TEST_CASE("so they are where the ranks hold different numbers of tokens") {
  const auto pairs = RandomPairs(9, 20, 61, 22);
  CheckEqualsOneRank(pairs, {{{0, 1}}, {{1, 9}}});
  CheckEqualsOneRank(pairs, {{{0, 1}}, {{1, 6}}, {{6, 8}}, {{8, 9}}});
}

TEST_CASE("and where micro-batches are accumulated or empty") {
  const auto pairs = RandomPairs(7, 15, 61, 23);
  // Accumulation, unevenly.
  CheckEqualsOneRank(pairs, {{{0, 1}, {1, 3}}, {{3, 4}, {4, 7}}});
  // Rank 1 has nothing in its last micro-batch; rank 3 nothing at all.
  CheckEqualsOneRank(pairs, {{{0, 3}, {3, 4}}, {{4, 7}, {7, 7}}});
  CheckEqualsOneRank(pairs, {{{0, 3}}, {{3, 5}}, {{5, 7}}, {{7, 7}}});
}

// A run whose updates follow the gradients smoothly: with a tiny epsilon Adam makes whole steps of
// gradients that are nothing but rounding.
ToyRun SmoothRun(const ToyCorpus& corpus, bool dropout = false) {
  ToyRun run = MakeToyRun(corpus);
  if (dropout) {
    run.task.model.dropout = 0.2f;
    run.task.model.attention_dropout = 0.1f;
    run.task.model.activation_dropout = 0.1f;
  }
  run.trainer.adam.epsilon = 1e-3f;
  run.trainer.adam.weight_decay = 0.01f;
  run.trainer.adam.ema_decay = 0.5f;
  return run;
}

void CheckSameTraining(const ToyResult& actual, const ToyResult& expected) {
  CHECK(actual.reason == "max_steps");
  CHECK(actual.positions == expected.positions);
  CHECK(actual.tokens == expected.tokens);
  REQUIRE(actual.losses.size() == expected.losses.size());
  for (size_t i = 0; i < actual.losses.size(); ++i) {
    CHECK(actual.losses[i] == Approx(expected.losses[i]).epsilon(1e-5));
  }
  // Weights are of size 1; five updates of 2e-3 move them.
  CHECK(LargestDifference(actual.weights, expected.weights) < 1e-6);
  CHECK(LargestDifference(actual.average, expected.average) < 1e-6);
}

TEST_CASE("trained weights do not depend on the number of ranks") {
  const ToyCorpus corpus;
  const bool dropout = GENERATE(false, true);
  CAPTURE(dropout);
  ToyRun run = SmoothRun(corpus, dropout);
  const ToyResult one = TrainToy(run)[0];
  CHECK(one.losses.back() < one.losses.front());
  for (const int ranks : {2, 4}) {
    INFO(ranks << " ranks");
    run.ranks = ranks;
    const std::vector<ToyResult> results = TrainToy(run);
    for (const ToyResult& result : results) CHECK(result.weights == results[0].weights);
    CheckSameTraining(results[0], one);
  }
}

TEST_CASE("trained weights do not depend on accumulation") {
  const ToyCorpus corpus;
  const bool dropout = GENERATE(false, true);
  CAPTURE(dropout);
  ToyRun run = SmoothRun(corpus, dropout);
  const ToyResult whole = TrainToy(run)[0];
  for (const int ranks : {1, 2}) {
    for (const int64_t micro_batch : {50, 17}) {
      INFO(ranks << " ranks, micro-batches of " << micro_batch);
      run.ranks = ranks;
      run.task.micro_batch_tokens = micro_batch;
      CheckSameTraining(TrainToy(run)[0], whole);
    }
  }
}

// The metrics of an untrained model, whose weights are the same on any number of ranks.
EvaluationResult EvaluateUntrained(const TranslationTaskOptions& options, int ranks) {
  const auto results = testing::RunRanks(ranks, [&](Communicator& comm) {
    Context ctx(options.device);
    return *(*TranslationTask::Create(options, comm))->Evaluate(ctx);
  });
  for (const EvaluationResult& result : results) CHECK(result.metrics == results[0].metrics);
  return results[0];
}

TEST_CASE("the losses of an evaluation are those of one process, to the last bit") {
  const ToyCorpus corpus(60, 19);
  ToyRun run = SmoothRun(corpus);
  for (const int64_t max_sentences : {0, 11}) {
    run.task.eval_max_sentences = max_sentences;
    run.task.eval_batch_tokens = 4096;
    const EvaluationResult whole = EvaluateUntrained(run.task, 1);
    run.task.eval_batch_tokens = 20;
    const EvaluationResult one = EvaluateUntrained(run.task, 1);
    CHECK(one.Metric("nll") == Approx(whole.Metric("nll")).epsilon(1e-6));
    for (const int ranks : {2, 3, 5}) {
      INFO(ranks << " ranks, " << max_sentences << " sentences at most");
      const EvaluationResult several = EvaluateUntrained(run.task, ranks);
      for (const char* const name : {"loss", "nll", "ppl", "bleu_tf"}) {
        CHECK(several.Metric(name) == one.Metric(name));
      }
      CHECK(several.rows.rows == one.rows.rows);
      for (const RowValues::Column& column : one.rows.columns) {
        INFO(column.name);
        REQUIRE(several.rows.Find(column.name) != nullptr);
        CHECK(several.rows.Find(column.name)->values == column.values);
      }
    }
  }
}

TEST_CASE("the metrics of an evaluation do not depend on the number of ranks") {
  const ToyCorpus corpus(240, 7);
  ToyRun run = SmoothRun(corpus);
  const EvaluationResult one = TrainToy(run)[0].evaluations.at(0);
  CHECK(one.metrics.size() == 6);
  for (const int ranks : {2, 4}) {
    run.ranks = ranks;
    for (const ToyResult& result : TrainToy(run)) {
      const EvaluationResult& several = result.evaluations.at(0);
      REQUIRE(several.metrics.size() == one.metrics.size());
      for (size_t i = 0; i < one.metrics.size(); ++i) {
        CHECK(several.metrics[i].first == one.metrics[i].first);
        CHECK(several.metrics[i].second == Approx(one.metrics[i].second).epsilon(1e-5));
      }
      CHECK(several.samples.size() == one.samples.size());
      CHECK(several.samples.at(0).hypothesis == one.samples.at(0).hypothesis);
    }
  }
}

}  // namespace
}  // namespace dtrain
