// batching_test.cc - plans and splits: every pair once, budgets kept, the same for any ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/batching.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "dtrain/base/random.h"
#include "dtrain/data/batch_walk.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

struct Corpus {
  explicit Corpus(int64_t pairs) {
    RandomStream random({.seed = 5});
    for (int64_t i = 0; i < pairs; ++i) {
      source.push_back(static_cast<int32_t>(1 + random.NextBelow(40)));
      target.push_back(static_cast<int32_t>(1 + random.NextBelow(40)));
    }
  }
  SampleLengths lengths() const { return {source, target}; }
  std::vector<int32_t> source, target;
};

std::vector<uint32_t> OrderOf(const EpochPlan& plan) {
  std::vector<uint32_t> order;
  for (int64_t b = 0; b < plan.num_batches(); ++b) {
    const auto batch = plan.Batch(b);
    order.insert(order.end(), batch.begin(), batch.end());
  }
  return order;
}

std::vector<uint32_t> AllOf(int64_t count) {
  std::vector<uint32_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

TEST_CASE("an epoch holds every pair once, in batches within the budget") {
  const Corpus corpus(5000);
  const int64_t window = GENERATE(0, 700);
  const BudgetUnit unit =
      GENERATE(BudgetUnit::kTargetTokens, BudgetUnit::kLongerSide, BudgetUnit::kBothSides);
  const EpochPlan plan(corpus.lengths(),
                       {.tokens_per_batch = 1000, .unit = unit, .length_window = window}, 3);
  std::vector<uint32_t> order = OrderOf(plan);
  int64_t total = 0;
  for (int64_t b = 0; b < plan.num_batches(); ++b) {
    int64_t tokens = 0;
    for (const uint32_t i : plan.Batch(b)) {
      const int64_t s = corpus.source[i] + 1;
      const int64_t t = corpus.target[i] + 1;
      tokens += unit == BudgetUnit::kTargetTokens ? t
                : unit == BudgetUnit::kLongerSide ? std::max(s, t)
                                                  : s + t;
    }
    REQUIRE(tokens <= 1000);
    total += tokens;
  }
  CHECK(total > 900 * plan.num_batches());  // batches are nearly full
  CHECK(order != AllOf(5000));
  std::sort(order.begin(), order.end());
  CHECK(order == AllOf(5000));
}

TEST_CASE("a plan depends on seed and epoch and on nothing else") {
  const Corpus corpus(1000);
  const BatchOptions options = {.tokens_per_batch = 500};
  const auto order = OrderOf(EpochPlan(corpus.lengths(), options, 0));
  CHECK(order == OrderOf(EpochPlan(corpus.lengths(), options, 0)));
  CHECK(order != OrderOf(EpochPlan(corpus.lengths(), options, 1)));
  BatchOptions other = options;
  other.seed = 2;
  CHECK(order != OrderOf(EpochPlan(corpus.lengths(), other, 0)));
  // Another budget cuts the same order elsewhere.
  other = options;
  other.tokens_per_batch = 800;
  CHECK(order == OrderOf(EpochPlan(corpus.lengths(), other, 0)));
  other.shuffle = false;
  CHECK(OrderOf(EpochPlan(corpus.lengths(), other, 0)) == AllOf(1000));
}

TEST_CASE("a length window makes batches of like length in random order") {
  const Corpus corpus(8000);
  const EpochPlan plan(corpus.lengths(), {.tokens_per_batch = 500, .length_window = 4000}, 0);
  int64_t spread = 0;
  int rises = 0;
  for (int64_t b = 0; b < plan.num_batches(); ++b) {
    const auto batch = plan.Batch(b);
    spread += corpus.target[batch.back()] - corpus.target[batch.front()];
    if (b > 0 && corpus.target[batch[0]] >= corpus.target[plan.Batch(b - 1)[0]]) ++rises;
  }
  CHECK(spread < plan.num_batches());
  CHECK(rises < plan.num_batches() * 7 / 10);
}

TEST_CASE("a pair beyond the budget makes a batch of its own") {
  const std::vector<int32_t> lengths = {3, 50, 3, 3};
  const EpochPlan plan({lengths, lengths}, {.tokens_per_batch = 8, .shuffle = false}, 0);
  REQUIRE(plan.num_batches() == 3);
  CHECK(plan.Batch(1).size() == 1);
  CHECK(plan.start(2) == 2);
  CHECK(plan.start(3) == 4);
}

TEST_CASE("batches continue from any position without loss or repetition") {
  const Corpus corpus(1000);
  const EpochPlan plan(corpus.lengths(), {.tokens_per_batch = 700}, 2);
  const int64_t inside = plan.start(4) + 2;
  const auto rest = plan.BatchFrom(inside);
  CHECK(rest.data() == plan.Batch(4).data() + 2);
  CHECK(inside + static_cast<int64_t>(rest.size()) == plan.start(5));
  CHECK(plan.BatchFrom(plan.start(5)).size() == plan.Batch(5).size());
  CHECK(plan.BatchFrom(999).size() == 1);
}

// The samples of an epoch whose first half goes by `first` and the rest by `second`.
std::vector<uint32_t> WalkBoth(const Corpus& corpus, const BatchOptions& first,
                               const BatchOptions& second) {
  BatchWalk begun(corpus.lengths(), first, {}, {.epoch = 2});
  std::vector<uint32_t> samples;
  const auto take = [&](BatchWalk& walk) {
    const BatchShare share = walk.Next();
    samples.insert(samples.end(), share.samples.begin(), share.samples.end());
    return share.next;
  };
  DataPosition next{.epoch = 2};
  while (next.sample < corpus.lengths().size() / 2) next = take(begun);
  BatchWalk resumed(corpus.lengths(), second, {}, next);
  while (next.epoch == 2) next = take(resumed);
  CHECK(next == DataPosition{.epoch = 3});
  return samples;
}

TEST_CASE("an epoch that goes on with other options has every sample once") {
  const Corpus corpus(1000);
  const BatchOptions plain{.tokens_per_batch = 700};
  const BatchOptions windows{.tokens_per_batch = 700, .length_window = 100};
  for (const BatchOptions& first : {plain, windows}) {
    INFO("begun with a window of " << first.length_window);
    BatchOptions budget = first, seed = first, unit = first, in_order = first;
    budget.tokens_per_batch = 1000;
    seed.seed = 2;
    unit.unit = BudgetUnit::kBothSides;
    in_order.shuffle = false;
    const BatchOptions samples{.samples_per_batch = 16, .length_window = first.length_window};
    const BatchOptions window{.tokens_per_batch = 700, .length_window = 130};
    for (const BatchOptions& second : {budget, seed, unit, in_order, samples, window, plain}) {
      std::vector<uint32_t> order = WalkBoth(corpus, first, second);
      CHECK(order == OrderOf(EpochPlan(corpus.lengths(), first, 2)));
      std::sort(order.begin(), order.end());
      CHECK(order == AllOf(1000));
    }
  }
}

TEST_CASE("updates are counted as a walk makes them") {
  const Corpus corpus(1000);
  const BatchOptions window{.tokens_per_batch = 700, .length_window = 100};
  for (const BatchOptions& options :
       {BatchOptions{.tokens_per_batch = 700}, window, BatchOptions{.samples_per_batch = 16},
        BatchOptions{.samples_per_batch = 16, .length_window = 100}}) {
    for (const DataPosition& start :
         {DataPosition(), DataPosition{.epoch = 1, .sample = 501},
          DataPosition{.epoch = 1, .sample = 64, .order = SampleOrderOf(window)}}) {
      INFO("budgets " << options.tokens_per_batch << " and " << options.samples_per_batch
                      << ", window " << options.length_window << ", from " << start.sample);
      BatchWalk walk(corpus.lengths(), options, {}, start);
      int64_t updates = 0;
      while (walk.Next().next.epoch < 4) ++updates;
      CHECK(CountUpdates(corpus.lengths(), options, start, 4) == updates + 1);
      CHECK(CountUpdates(corpus.lengths(), options, start, start.epoch) == 0);
    }
  }
}

TEST_CASE("even updates of ever so many epochs are counted at once") {
  const Corpus corpus(1000);
  const DataPosition start{.epoch = 1, .sample = 64};
  CHECK(CountUpdates(corpus.lengths(), {.samples_per_batch = 16}, start, 5'000'000'000) ==
        63 * 4'999'999'999 - 4);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(CountUpdates(corpus.lengths(), {.samples_per_batch = kMost}, {}, 3) == 3);
}

TEST_CASE("batches of an epoch in another order keep the budget of now") {
  const Corpus corpus(1000);
  const SampleOrder order = SampleOrderOf({.tokens_per_batch = 700, .length_window = 100});
  const EpochPlan plan(corpus.lengths(), {.tokens_per_batch = 300, .length_window = 50}, 2, order);
  for (int64_t b = 0; b < plan.num_batches(); ++b) {
    int64_t tokens = 0;
    for (const uint32_t i : plan.Batch(b)) tokens += corpus.lengths().TargetTokens(i);
    CHECK(tokens <= 300);
  }
  CHECK(plan.start(plan.num_batches()) == 1000);
}

TEST_CASE("what does not change the order is no part of it") {
  const BatchOptions options{.tokens_per_batch = 500, .seed = 3};
  BatchOptions other = options;
  other.tokens_per_batch = 800;
  CHECK(SampleOrderOf(other) == SampleOrderOf(options));
  other.seed = 4;
  CHECK_FALSE(SampleOrderOf(other) == SampleOrderOf(options));
  BatchOptions in_order = options;
  in_order.shuffle = other.shuffle = false;
  CHECK(SampleOrderOf(other) == SampleOrderOf(in_order));
  const auto windows = [](int64_t tokens, int64_t samples) {
    return SampleOrderOf(
        {.tokens_per_batch = tokens, .samples_per_batch = samples, .length_window = 9});
  };
  CHECK_FALSE(windows(500, 0) == windows(800, 0));
  CHECK_FALSE(windows(500, 8) == windows(500, 16));
  CHECK(windows(500, 8) == windows(800, 8));
}

TEST_CASE("an epoch without pairs has no batches") {
  const EpochPlan plan({}, {}, 0);
  CHECK(plan.num_batches() == 0);
  CHECK(plan.num_samples() == 0);
}

TEST_CASE("a split gives every pair to one part and evens out the work") {
  const Corpus corpus(400);
  const std::vector<uint32_t> samples = AllOf(400);
  for (const int parts : {1, 2, 3, 8}) {
    const auto split = SplitByTokens(samples, corpus.lengths(), parts);
    std::vector<uint32_t> all;
    std::vector<int64_t> work;
    for (const auto& part : split) {
      all.insert(all.end(), part.begin(), part.end());
      work.push_back(0);
      for (const uint32_t i : part) work.back() += corpus.lengths().Work(i);
    }
    std::sort(all.begin(), all.end());
    CHECK(all == samples);
    CHECK(*std::max_element(work.begin(), work.end()) -
              *std::min_element(work.begin(), work.end()) <=
          4);
  }
}

TEST_CASE("with fewer pairs than parts the last parts are empty") {
  const Corpus corpus(3);
  const auto split = SplitByTokens(AllOf(3), corpus.lengths(), 5);
  CHECK(split[2].size() == 1);
  CHECK(split[3].empty());
  CHECK(split[4].empty());
}

TEST_CASE("a split tells two occurrences of a sample apart") {
  const Corpus corpus(10);
  const std::vector<uint32_t> samples = {7, 3, 7, 7};
  const auto split = SplitByTokens(samples, corpus.lengths(), 2);
  std::vector<uint32_t> positions = split[0];
  positions.insert(positions.end(), split[1].begin(), split[1].end());
  std::sort(positions.begin(), positions.end());
  CHECK(positions == AllOf(4));
}

TEST_CASE("an epoch of sources has the samples drawn for it, in an order of its own") {
  const Corpus corpus(100);
  SampleLengths lengths = corpus.lengths();
  const std::vector<SampleSource> sources = {{80, 1.0}, {20, 1.0}};
  lengths.sources = sources;
  const BatchOptions options{.tokens_per_batch = 200, .seed = 5};
  for (const int64_t window : {0, 25}) {
    BatchOptions own = options;
    own.length_window = window;
    std::vector<uint32_t> order = OrderOf(EpochPlan(lengths, own, 3));
    std::vector<uint32_t> drawn = DrawSamples(sources, 3, {.seed = 5});
    CHECK(order != drawn);
    CHECK(order != OrderOf(EpochPlan(lengths, own, 4)));
    std::sort(order.begin(), order.end());
    std::sort(drawn.begin(), drawn.end());
    CHECK(order == drawn);
  }
  BatchOptions in_order = options;
  in_order.shuffle = false;
  CHECK(OrderOf(EpochPlan(lengths, in_order, 1)) == DrawSamples(sources, 1, {.shuffle = false}));
}

TEST_CASE("batches of so many samples hold them whatever their lengths") {
  const Corpus corpus(1000);
  const SampleLengths single{.source = corpus.source, .added = 0};
  const BatchOptions options = {.tokens_per_batch = 1, .samples_per_batch = 32};
  const EpochPlan plan(single, options, 1);
  REQUIRE(plan.num_batches() == 32);
  for (int64_t b = 0; b < 31; ++b) REQUIRE(plan.Batch(b).size() == 32);
  CHECK(plan.Batch(31).size() == 1000 - 31 * 32);
  // The order is that of a plan by tokens.
  CHECK(OrderOf(plan) == OrderOf(EpochPlan(single, {.tokens_per_batch = 500}, 1)));
}

TEST_CASE("lengths of 16 bits are those of 32") {
  const Corpus corpus(500);
  const std::vector<uint16_t> narrow(corpus.source.begin(), corpus.source.end());
  const SampleLengths wide{.source = corpus.source, .added = 3};
  const SampleLengths lengths{.source = narrow, .added = 3};
  REQUIRE(lengths.size() == 500);
  for (int64_t i = 0; i < 500; ++i) CHECK(lengths.Work(i) == wide.Work(i));
  const BatchOptions options{.tokens_per_batch = 300};
  CHECK(OrderOf(EpochPlan(lengths, options, 1)) == OrderOf(EpochPlan(wide, options, 1)));
  CHECK(EpochPlan(lengths, options, 1).num_batches() == EpochPlan(wide, options, 1).num_batches());
  CHECK(LengthView().empty());
  CHECK(LengthView(std::vector<uint16_t>()).empty());
}

TEST_CASE("single sequences are cut and split by their own tokens") {
  const Corpus corpus(3000);
  const SampleLengths single{.source = corpus.source, .added = 0};
  const EpochPlan plan(single, {.tokens_per_batch = 600, .length_window = 1000}, 0);
  std::vector<uint32_t> order = OrderOf(plan);
  for (int64_t b = 0; b < plan.num_batches(); ++b) {
    const auto batch = plan.Batch(b);
    int64_t tokens = 0;
    for (const uint32_t i : batch) tokens += corpus.source[i];
    REQUIRE(tokens <= 600);
    REQUIRE(corpus.source[batch.back()] - corpus.source[batch.front()] <= 9);
  }
  std::sort(order.begin(), order.end());
  CHECK(order == AllOf(3000));
  for (const auto& part : SplitByTokens(plan.Batch(0), single, 2)) {
    int64_t tokens = 0;
    for (const uint32_t i : part) tokens += corpus.source[i];
    CHECK(tokens <= 340);
  }
}

TEST_CASE("an evaluation has the same batches for any number of ranks") {
  const Corpus corpus(500);
  const SampleLengths single{.source = corpus.source, .added = 0};
  const auto whole = EvaluationBatches(single, 200, 0, 1);
  std::vector<uint32_t> all;
  for (const auto& batch : whole) {
    int64_t tokens = 0;
    for (const uint32_t i : batch) tokens += corpus.source[i];
    CHECK(tokens <= 200);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  std::sort(all.begin(), all.end());
  CHECK(all == AllOf(500));

  std::vector<std::vector<uint32_t>> dealt;
  int64_t least = INT64_MAX;
  int64_t most = 0;
  for (int rank = 0; rank < 3; ++rank) {
    int64_t tokens = 0;
    for (const auto& batch : EvaluationBatches(single, 200, rank, 3)) {
      dealt.push_back(batch);
      for (const uint32_t i : batch) tokens += corpus.source[i];
    }
    least = std::min(least, tokens);
    most = std::max(most, tokens);
  }
  CHECK(most - least <= 200);
  auto sorted = whole;
  std::sort(sorted.begin(), sorted.end());
  std::sort(dealt.begin(), dealt.end());
  CHECK(dealt == sorted);
}

TEST_CASE("an evaluation of pairs counts the side that the budget is of") {
  const std::vector<int32_t> source = {2, 2, 2, 2};
  const std::vector<int32_t> target = {6, 6, 6, 6};
  const SampleLengths pairs{.source = source, .target = target, .added = 0};
  CHECK(EvaluationBatches(pairs, 16, 0, 1).size() == 2);
  CHECK(EvaluationBatches(pairs, 12, 0, 1, BudgetUnit::kLongerSide).size() == 2);
  CHECK(EvaluationBatches(pairs, 24, 0, 1, BudgetUnit::kLongerSide).size() == 1);
}

TEST_CASE("an evaluation gives a sample beyond the budget a batch, and surplus ranks none") {
  const std::vector<int32_t> lengths = {3, 50};
  const SampleLengths single{.source = lengths, .added = 0};
  CHECK(EvaluationBatches(single, 8, 0, 3) == std::vector<std::vector<uint32_t>>{{1}});
  CHECK(EvaluationBatches(single, 8, 1, 3) == std::vector<std::vector<uint32_t>>{{0}});
  CHECK(EvaluationBatches(single, 8, 2, 3).empty());
}

}  // namespace
}  // namespace dtrain
