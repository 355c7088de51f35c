// collective_agreement_test.cc - two ranks' agreements, fed with each other's votes and news.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/collective_agreement.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/comm/internal/cycle_votes.h"
#include "testing/catch.h"

namespace dtrain::internal {
namespace {

struct Rank {
  PendingCollectives pending;
  CollectiveAgreement agreement;
  explicit Rank(int rank, int64_t cache_entries = 8)
      : agreement(rank, {0, 1}, cache_entries, &pending) {}

  void Submit(const std::string& name, int64_t count = 4,
              CollectiveKind kind = CollectiveKind::kAllReduce) {
    auto submitted = std::make_unique<SubmittedCollective>();
    submitted->request.name = name;
    submitted->request.kind = kind;
    if (kind != CollectiveKind::kJoin) {
      submitted->request.items.push_back({DType::kFloat32, DeviceType::kCpu, Shape({count})});
    }
    submitted->result = std::make_shared<CollectiveResult>();
    agreement.Add(std::move(submitted));
  }
  void Learn(int rank, std::string_view news) {
    while (!news.empty()) agreement.Learn(rank, CollectiveRequest::Read(&news));
  }
};

struct Ready {
  std::vector<std::string> names;  // "a: error" if the ranks disagree
  bool had_news = false;
  friend bool operator==(const Ready&, const Ready&) = default;
};

// One cycle of both ranks; both must decide the same.
Ready Cycle(Rank& a, Rank& b) {
  std::vector<uint64_t> votes = a.agreement.Vote(false);
  const std::vector<uint64_t> other = b.agreement.Vote(false);
  REQUIRE(votes.size() == other.size());
  for (size_t i = 0; i < votes.size(); ++i) votes[i] &= other[i];
  std::vector<std::vector<int>> numbers;
  for (Rank* rank : {&a, &b}) numbers.push_back(rank->agreement.ReadyNumbers(votes));
  Ready ready{.names = {}, .had_news = SomeRankHasNews(votes)};
  if (ready.had_news) {
    const std::string news_a = a.pending.TakeNews();
    const std::string news_b = b.pending.TakeNews();
    for (Rank* rank : {&a, &b}) {
      rank->Learn(0, news_a);
      rank->Learn(1, news_b);
    }
  }
  const auto take = [&](Rank& rank, const std::vector<int>& of_rank) {
    std::vector<std::string> names;
    for (const CollectiveWork& work : rank.agreement.TakeReady(of_rank)) {
      const AgreedCollective& agreed = work.agreed;
      names.push_back(agreed.request.name + (agreed.error.empty() ? "" : ": error"));
    }
    return names;
  };
  ready.names = take(a, numbers[0]);
  CHECK(take(b, numbers[1]) == ready.names);
  return ready;
}

TEST_CASE("a tensor travels as a request once, later as a bit in the votes") {
  Rank a(0);
  Rank b(1);
  a.Submit("weights");
  CHECK(Cycle(a, b) == Ready{{}, true});
  b.Submit("weights");
  CHECK(Cycle(a, b) == Ready{{"weights"}, true});
  for (Rank* rank : {&a, &b}) rank->Submit("weights");
  CHECK(Cycle(a, b) == Ready{{"weights"}, false});
  CHECK_FALSE(a.pending.has_tensors());
}

TEST_CASE("a tensor whose shape changes on one rank is compared anew, and the ranks disagree") {
  Rank a(0);
  Rank b(1);
  for (Rank* rank : {&a, &b}) rank->Submit("weights");
  Cycle(a, b);
  a.Submit("weights", 5);
  b.Submit("weights", 4);
  CHECK(Cycle(a, b).names.empty());  // a's request removes the cached one, b's follows
  CHECK(Cycle(a, b).names == std::vector<std::string>{"weights: error"});
}

TEST_CASE("a full cache forgets the tensor used longest ago") {
  Rank a(0, /*cache_entries=*/2);
  Rank b(1, /*cache_entries=*/2);
  for (const char* name : {"x", "y", "z"}) {
    for (Rank* rank : {&a, &b}) rank->Submit(name);
    CHECK(Cycle(a, b).names == std::vector<std::string>{name});
  }
  for (Rank* rank : {&a, &b}) rank->Submit("z");
  CHECK(Cycle(a, b) == Ready{{"z"}, false});
  for (Rank* rank : {&a, &b}) rank->Submit("x");
  CHECK(Cycle(a, b) == Ready{{"x"}, true});
}

TEST_CASE("a joined rank takes part without data, until all have joined") {
  Rank a(0);
  Rank b(1);
  b.Submit(kJoinName, 0, CollectiveKind::kJoin);
  a.Submit("weights");
  CHECK(Cycle(a, b).names == std::vector<std::string>{"weights"});
  a.Submit("gather", 4, CollectiveKind::kAllGather);
  CHECK(Cycle(a, b).names == std::vector<std::string>{"gather: error"});
  CHECK(b.agreement.TakeFinishedJoin() == nullptr);
  a.Submit(kJoinName, 0, CollectiveKind::kJoin);
  Cycle(a, b);
  const auto join = b.agreement.TakeFinishedJoin();
  REQUIRE(join != nullptr);
  CHECK(join->result->last_joined == 0);
  CHECK_FALSE(b.agreement.some_joined());
}

TEST_CASE("a rank that gives up keeps copies of what it voted for, and nothing else") {
  Rank a(0);
  Rank b(1);
  for (Rank* rank : {&a, &b}) rank->Submit("cached");
  Cycle(a, b);
  a.Submit("cached");
  a.Submit("new");
  CHECK(a.pending.TakeAll(/*keep_voted=*/true).size() == 2);
  CHECK(a.pending.Has("cached"));
  CHECK_FALSE(a.pending.Has("new"));
  CHECK(a.pending.TakeAll(/*keep_voted=*/false).size() == 1);
  CHECK_FALSE(a.pending.has_tensors());
}

TEST_CASE("a message names five tensors and counts the others") {
  Rank a(0);
  for (const char* name : {"f", "e", "d", "c", "b", "a"}) a.Submit(name);
  CHECK(a.pending.Names() == "\"a\", \"b\", \"c\", \"d\", \"e\" and 1 more");
}

TEST_CASE("a cached tensor that waits long becomes news, so that the table can name who lacks it") {
  Rank a(0);
  Rank b(1);
  for (Rank* rank : {&a, &b}) rank->Submit("weights");
  Cycle(a, b);
  a.Submit("weights");
  CHECK(Cycle(a, b) == Ready{{}, false});
  a.pending.AnnounceOlderThan(-1.0);
  CHECK(Cycle(a, b) == Ready{{}, true});
  const auto stalled = b.agreement.TakeStalled(0);
  REQUIRE(stalled.size() == 1);
  CHECK(stalled[0].missing == std::vector<int>{1});
}

}  // namespace
}  // namespace dtrain::internal
