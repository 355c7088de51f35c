// collective_agreement.cc - votes, news and cache, brought together.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/collective_agreement.h"

#include <string>

#include "dtrain/base/check.h"
#include "dtrain/comm/internal/cycle_votes.h"

namespace dtrain::internal {
namespace {

bool IsCached(CollectiveKind kind) { return kind <= CollectiveKind::kBarrier; }

}  // namespace

std::vector<uint64_t> CollectiveAgreement::Vote(bool has_news) const {
  const std::vector<int> numbers = pending_->CachedNumbers();
  return EncodeVote({.cache_size = cache_.size(),
                     .submitted = numbers,
                     .has_news = has_news || pending_->HasNews(),
                     .some_joined = some_joined(),
                     .has_joined = table_.joined().contains(rank_)});
}

std::vector<int> CollectiveAgreement::ReadyNumbers(std::span<const uint64_t> votes) const {
  return internal::ReadyNumbers(votes, cache_.size());
}

void CollectiveAgreement::Learn(int rank, CollectiveRequest request) {
  // Some rank's request differs from the one in the cache: all ranks send theirs again.
  if (cache_.Holds(request.name)) {
    cache_.Remove(request.name);
    pending_->Forget(request.name);
  }
  table_.Add(rank, std::move(request));
}

void CollectiveAgreement::CheckHasData(const AgreedCollective& agreed) const {
  const std::string& name = agreed.request.name;
  DT_CHECK(!agreed.error.empty() || pending_->Has(name) || table_.joined().contains(rank_))
      << "this rank has no data for \"" << name << "\"";
}

void CollectiveAgreement::Remember(const CollectiveWork& work) {
  const CollectiveRequest& request = work.agreed.request;
  if (!work.agreed.error.empty() || !IsCached(request.kind)) return;
  // A rank that has joined knows the request as the others sent it.
  std::string text = work.submitted ? work.submitted->request.Text() : request.Text();
  const std::string evicted = cache_.Insert(work.agreed, std::move(text));
  if (!evicted.empty()) pending_->Forget(evicted);
}

std::vector<CollectiveWork> CollectiveAgreement::TakeReady(const std::vector<int>& numbers) {
  std::vector<AgreedCollective> agreed;
  for (const int number : numbers) {
    const AgreedCollective& cached = cache_.Get(number);
    if (cached.request.name.empty()) continue;  // the news removed it
    cache_.Touch(number);
    agreed.push_back(table_.Recheck(cached));
  }
  const size_t from_cache = agreed.size();
  for (AgreedCollective& a : table_.TakeReady()) agreed.push_back(std::move(a));
  for (const AgreedCollective& a : agreed) CheckHasData(a);

  std::vector<CollectiveWork> ready;
  for (AgreedCollective& a : agreed) {
    CollectiveWork& work = ready.emplace_back();
    work.submitted = pending_->Take(a.request.name);
    work.agreed = std::move(a);
    if (ready.size() > from_cache) Remember(work);
  }
  return ready;
}

std::unique_ptr<SubmittedCollective> CollectiveAgreement::TakeFinishedJoin() {
  if (!pending_->has_join() || !all_joined()) return nullptr;
  table_.ClearJoined();
  std::unique_ptr<SubmittedCollective> join = pending_->TakeJoin();
  join->result->last_joined = table_.last_joined();
  return join;
}

}  // namespace dtrain::internal
