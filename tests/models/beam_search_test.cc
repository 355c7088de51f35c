// beam_search_test.cc - beam search against exhaustive search, and its independence of batching.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/beam_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "dtrain/device/arena.h"
#include "dtrain/ops/cast.h"
#include "testing/catch.h"
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

// When a full beam ends the search of a sentence.
enum class StopRule { kByScore, kAlways, kNever, kWithoutPenalty };

// The search of one sentence as it is defined, from the probabilities of whole beginnings.
struct Reference {
  struct Partial {
    std::vector<int32_t> ids;
    double sum = 0.0;  // log p
  };
  Seq2SeqTransformer& model;
  Context& ctx;
  BeamSearchOptions options;
  std::vector<int32_t> source;
  StopRule rule = StopRule::kByScore;
  std::vector<double> finished = {};  // scores, best first

  double Penalty(size_t length) const {
    return std::pow((5.0 + static_cast<double>(length)) / 6.0, double{options.alpha});
  }
  // log p of the tokens, the last of which need not be the end.
  double LogProbabilityOf(const std::vector<int32_t>& ids) const {
    const testing::SentencePair pair{{source.begin(), source.end() - 1},
                                     {ids.begin(), ids.end() - 1}};
    TranslationBatch batch = Pack({pair}, 0, 1, model.options().pad_id());
    batch.target_ids.back() = ids.back();
    return -model.Forward(batch, ctx).nll;
  }
  std::vector<Partial> Extended(const std::vector<Partial>& alive) const {
    std::vector<Partial> all;
    for (const Partial& partial : alive) {
      const bool is_full = partial.ids.size() == source.size() + options.extra_length;
      for (int32_t id = 0; id < model.options().vocab_size; ++id) {
        if (id == model.options().pad_id() || (is_full && id != kEnd)) continue;
        std::vector<int32_t> ids = partial.ids;
        ids.push_back(id);
        const double sum = LogProbabilityOf(ids);
        all.push_back({std::move(ids), sum});
      }
    }
    std::sort(all.begin(), all.end(),
              [](const Partial& a, const Partial& b) { return a.sum > b.sum; });
    return all;
  }
  bool IsDecided(const Partial& best) const {
    if (finished.size() < static_cast<size_t>(options.beam_size)) return false;
    if (rule == StopRule::kAlways || rule == StopRule::kNever) return rule == StopRule::kAlways;
    const double penalty = rule == StopRule::kWithoutPenalty ? 1.0 : Penalty(best.ids.size() + 1);
    return best.sum / penalty <= finished.back();
  }
  std::vector<double> Scores() {
    const auto beam = static_cast<size_t>(options.beam_size);
    std::vector<Partial> alive(1);
    while (!alive.empty()) {
      const std::vector<Partial> all = Extended(alive);
      alive.clear();
      for (size_t rank = 0; rank < all.size() && alive.size() < beam; ++rank) {
        if (all[rank].ids.back() != kEnd) {
          alive.push_back(all[rank]);
        } else if (rank < beam) {
          finished.push_back(all[rank].sum / Penalty(all[rank].ids.size()));
        }
      }
      std::sort(finished.rbegin(), finished.rend());
      if (finished.size() > beam) finished.resize(beam);
      if (!alive.empty() && IsDecided(alive.front())) break;
    }
    return finished;
  }
};

double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0.0 : 1e9;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

TEST_CASE("a search goes on until nothing alive can score as well, with the length penalty") {
  const Seq2SeqOptions options = TinyOptions(9);
  Context ctx(testing::TestDevice());
  const auto sources = Sources(RandomPairs(6, 5, options.vocab_size, 8));
  Context host(Device{});
  // Sentences by which another rule is told from this one.
  std::map<StopRule, int> differing;
  for (const uint64_t seed : {21, 24, 27, 30, 33, 36}) {
    Seq2SeqTransformer model(options);
    model.Allocate(testing::TestDevice(), DType::kFloat32, seed);
    // Far enough apart that some translations end before their limit.
    Scale(model.parameters().weights(), 1.6f, ctx.stream());
    model.parameters().RefreshComputeWeights();
    // Thousands of passes over a few tokens: on the host whatever the search runs on.
    Seq2SeqTransformer plain(options);
    plain.Allocate({}, DType::kFloat32, seed);
    Scale(plain.parameters().weights(), 1.6f, host.stream());
    plain.parameters().RefreshComputeWeights();
    for (const float alpha : {0.6f, 2.0f}) {
      const BeamSearchOptions search{
          .beam_size = 2, .alpha = alpha, .extra_length = 4, .n_best = 2, .end_id = kEnd};
      const auto results = BeamSearch(model, sources, search, ctx);
      for (size_t i = 0; i < sources.size(); ++i) {
        INFO("seed " << seed << ", alpha " << alpha << ", sentence " << i);
        std::vector<double> scores;
        for (const Hypothesis& found : results[i]) scores.push_back(double{found.score});
        const auto expected = Reference{plain, host, search, sources[i]}.Scores();
        CHECK(LargestDifference(scores, expected) < 1e-4);
        for (const StopRule rule :
             {StopRule::kAlways, StopRule::kNever, StopRule::kWithoutPenalty}) {
          const auto other = Reference{plain, host, search, sources[i], rule}.Scores();
          if (LargestDifference(other, expected) > 1e-3) ++differing[rule];
        }
      }
    }
  }
  CHECK(differing[StopRule::kAlways] > 0);
  CHECK(differing[StopRule::kNever] > 0);
  CHECK(differing[StopRule::kWithoutPenalty] > 0);
}

TEST_CASE("what is forbidden is not produced, and the rest still is") {
  const Seq2SeqOptions options = TinyOptions(40);
  Seq2SeqTransformer model(options);
  model.Allocate(testing::TestDevice(), DType::kFloat32, 13);
  Context ctx(testing::TestDevice());
  const std::vector<std::vector<int32_t>> sources = {{5, 6, 7, kEnd}};
  BeamSearchOptions search{.beam_size = 2, .extra_length = 4, .end_id = kEnd};
  // What is found is forbidden next.
  for (int round = 0; round < 4; ++round) {
    const std::vector<int32_t> ids = BeamSearch(model, sources, search, ctx)[0].at(0).ids;
    REQUIRE_FALSE(ids.empty());
    for (const int32_t id : ids) {
      CHECK(std::count(search.forbidden_ids.begin(), search.forbidden_ids.end(), id) == 0);
    }
    search.forbidden_ids.insert(search.forbidden_ids.end(), ids.begin(), ids.end());
  }
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
