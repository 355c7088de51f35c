// beam_search_test.cc - beam search against exhaustive search, and its independence of batching.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/beam_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "dtrain/ops/cast.h"
#include "testing/test_device.h"
#include "testing/translation_batches.h"

namespace dtrain {
namespace {

using testing::kEnd;
using testing::Pack;
using testing::RandomPairs;

Seq2SeqOptions TinyOptions(int64_t vocab_size) {
  return {.vocab_size = vocab_size,
          .encoder_layers = 1,
          .decoder_layers = 2,
          .hidden_size = 16,
          .ffn_size = 24,
          .num_heads = 2,
          .max_positions = 32};
}

std::vector<std::vector<int32_t>> Sources(const std::vector<testing::SentencePair>& pairs) {
  std::vector<std::vector<int32_t>> sources;
  for (const auto& pair : pairs) {
    sources.push_back(pair.source);
    sources.back().push_back(kEnd);
  }
  return sources;
}

// log p of a finished target under the model, by teacher forcing.
double LogProbability(Seq2SeqTransformer& model, const std::vector<int32_t>& source,
                      const std::vector<int32_t>& target, Context& ctx) {
  const testing::SentencePair pair{{source.begin(), source.end() - 1}, target};
  return -model.Forward(Pack({pair}, 0, 1, model.options().pad_id()), ctx).nll;
}

TEST_CASE("a beam as wide as the search space finds the best translation") {
  const Seq2SeqOptions options = TinyOptions(6);  // tokens 0, 1, 3, 4; end 2; pad 5
  Seq2SeqTransformer model(options);
  model.Allocate(testing::TestDevice(), DType::kFloat32, 11);
  Context ctx(testing::TestDevice());
  const std::vector<std::vector<int32_t>> sources = {{3, 4, kEnd}};
  // At most 3 tokens: 1 + 4 + 16 + 64 targets; pruned nowhere with 512 hypotheses.
  const auto results = BeamSearch(
      model, sources,
      {.beam_size = 512, .alpha = 0.6f, .extra_length = 0, .n_best = 1, .end_id = kEnd}, ctx);
  double best = -1e9;
  std::vector<int32_t> best_ids;
  std::vector<std::vector<int32_t>> targets{{}};
  for (size_t i = 0; i < targets.size(); ++i) {
    const std::vector<int32_t> target = targets[i];
    const double score = LogProbability(model, sources[0], target, ctx) /
                         std::pow((5.0 + static_cast<double>(target.size()) + 1.0) / 6.0, 0.6);
    if (score > best) {
      best = score;
      best_ids = target;
    }
    if (target.size() == 3) continue;
    for (const int32_t id : {0, 1, 3, 4}) {
      targets.push_back(target);
      targets.back().push_back(id);
    }
  }
  REQUIRE(results[0].size() == 1);
  CHECK(results[0][0].ids == best_ids);
  CHECK(double{results[0][0].score} == Approx(best).epsilon(1e-4));
}

TEST_CASE("a translation does not depend on its batch") {
  const Seq2SeqOptions options = TinyOptions(40);
  Seq2SeqTransformer model(options);
  model.Allocate(testing::TestDevice(), DType::kFloat32, 12);
  Context ctx(testing::TestDevice());
  const auto sources = Sources(RandomPairs(9, 12, options.vocab_size, 5));
  BeamSearchOptions search{.beam_size = 4, .extra_length = 8, .n_best = 4, .end_id = kEnd};
  search.batch_tokens = 1000;
  const auto together = BeamSearch(model, sources, search, ctx);
  search.batch_tokens = 1;
  const auto alone = BeamSearch(model, sources, search, ctx);
  for (size_t i = 0; i < sources.size(); ++i) {
    REQUIRE(together[i].size() == alone[i].size());
    for (size_t n = 0; n < together[i].size(); ++n) {
      CHECK(together[i][n].ids == alone[i][n].ids);
      CHECK(together[i][n].score == Approx(alone[i][n].score).epsilon(1e-5));
    }
    CHECK(std::is_sorted(together[i].begin(), together[i].end(),
                         [](const auto& a, const auto& b) { return a.score > b.score; }));
    // The score is that of teacher forcing.
    const Hypothesis& first = together[i][0];
    CHECK(double{first.log_probability} ==
          Approx(LogProbability(model, sources[i], first.ids, ctx)).margin(1e-3));
  }
  CHECK(ctx.activations().used() == 0);
}

TEST_CASE("a beam of one is greedy search whatever the length penalty") {
  const Seq2SeqOptions options = TinyOptions(20);
  Context ctx(testing::TestDevice());
  const auto sources = Sources(RandomPairs(40, 8, options.vocab_size, 6));
  bool some_end_early = false;
  for (const uint64_t seed : {21, 24, 27, 30, 33, 36}) {
    Seq2SeqTransformer model(options);
    model.Allocate(testing::TestDevice(), DType::kFloat32, seed);
    // Far enough apart that some translations end before their limit.
    Scale(model.parameters().weights(), 1.6f, ctx.stream());
    model.parameters().RefreshComputeWeights();
    const auto search = [&](float alpha) {
      BeamSearchOptions greedy{.beam_size = 1, .alpha = alpha, .extra_length = 8, .end_id = kEnd};
      return BeamSearch(model, sources, greedy, ctx);
    };
    const auto plain = search(0.0f);
    const auto penalised = search(3.0f);
    for (size_t i = 0; i < sources.size(); ++i) {
      CHECK(penalised[i].at(0).ids == plain[i].at(0).ids);
      const size_t limit = sources[i].size() + 8;
      some_end_early |= !plain[i][0].ids.empty() && plain[i][0].ids.size() < limit;
    }
  }
  CHECK(some_end_early);
}

TEST_CASE("an empty sentence translates to nothing and limits hold") {
  const Seq2SeqOptions options = TinyOptions(40);
  Seq2SeqTransformer model(options);
  model.Allocate(testing::TestDevice(), DType::kFloat32, 13);
  Context ctx(testing::TestDevice());
  const std::vector<std::vector<int32_t>> sources = {{kEnd}, {}, {5, 6, 7, kEnd}};
  const auto results = BeamSearch(
      model, sources,
      {.beam_size = 2, .extra_length = 1, .end_id = kEnd, .forbidden_ids = {0, 1, 9, 10}}, ctx);
  CHECK(results[0].at(0).ids.empty());
  CHECK(results[1].at(0).ids.empty());
  CHECK(results[2].at(0).ids.size() <= 5);
  for (const int32_t id : results[2][0].ids) {
    CHECK(id != 0);
    CHECK(id != 9);
    CHECK(id != options.pad_id());
  }
}

}  // namespace
}  // namespace dtrain
