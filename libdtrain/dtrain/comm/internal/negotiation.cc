// negotiation.cc - the table of requests, the joined ranks, and the cache.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/negotiation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/status.h"

namespace dtrain::internal {

int CollectiveCache::Find(const std::string& name, const std::string& text) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return -1;
  return slots_[static_cast<size_t>(found->second)].text == text ? found->second : -1;
}

std::string CollectiveCache::Insert(const AgreedCollective& agreed, std::string text) {
  if (capacity_ == 0) return "";
  std::string evicted;
  const auto by_use = [](const Slot& a, const Slot& b) { return a.used < b.used; };
  auto slot = std::min_element(slots_.begin(), slots_.end(), by_use);
  const bool has_free = slot != slots_.end() && slot->used < 0;
  if (!has_free && static_cast<int64_t>(slots_.size()) < capacity_) {
    slots_.emplace_back();
    slot = slots_.end() - 1;
  } else if (!has_free) {
    evicted = slot->agreed.request.name;
    numbers_.erase(evicted);
  }
  numbers_[agreed.request.name] = static_cast<int>(slot - slots_.begin());
  *slot = {agreed, std::move(text), ++clock_};
  return evicted;
}

void CollectiveCache::Remove(const std::string& name) {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return;
  slots_[static_cast<size_t>(found->second)] = {};
  numbers_.erase(found);
}

void Negotiation::Add(int rank, CollectiveRequest request) {
  if (request.kind == CollectiveKind::kJoin) {
    joined_.insert(rank);
    last_joined_ = rank;
    return;
  }
  auto found = by_name_.find(request.name);
  if (found == by_name_.end()) {
    entries_.push_back({.name = request.name, .by_rank = {}, .since = Timer(), .announced = false});
    found = by_name_.emplace(request.name, std::prev(entries_.end())).first;
  }
  found->second->by_rank.insert_or_assign(rank, std::move(request));
}

bool Negotiation::Complete(const Entry& entry) const {
  if (entry.by_rank.size() == job_ranks_.size()) return true;
  if (joined_.empty()) return false;
  for (int r = 0; r < static_cast<int>(job_ranks_.size()); ++r) {
    if (!entry.by_rank.contains(r) && !joined_.contains(r)) return false;
  }
  return true;
}

void Negotiation::RefuseWhereJoined(AgreedCollective* agreed) const {
  const CollectiveKind kind = agreed->request.kind;
  if (joined_.empty() || !agreed->error.empty()) return;
  if (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kBarrier) return;
  const int joined = job_ranks_[static_cast<size_t>(*joined_.begin())];
  agreed->error =
      absl::StrCat(ToAbsl(Name(kind)), " \"", agreed->request.name, "\": rank ", joined,
                   " has joined, and only all-reduces and barriers go on without a rank");
}

std::vector<AgreedCollective> Negotiation::TakeReady() {
  std::vector<AgreedCollective> ready;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (!Complete(*entry)) {
      ++entry;
      continue;
    }
    ready.push_back(Agree(entry->by_rank, job_ranks_));
    RefuseWhereJoined(&ready.back());
    by_name_.erase(entry->name);
    entry = entries_.erase(entry);
  }
  return ready;
}

AgreedCollective Negotiation::Recheck(const AgreedCollective& cached) const {
  AgreedCollective agreed = cached;
  RefuseWhereJoined(&agreed);
  return agreed;
}

std::vector<Negotiation::Stalled> Negotiation::TakeStalled(double seconds) {
  std::vector<Stalled> stalled;
  for (Entry& entry : entries_) {
    if (entry.since.Seconds() < seconds) continue;
    Stalled& s = stalled.emplace_back();
    s.name = entry.name;
    s.first_rank = entry.by_rank.begin()->first;
    s.seconds = entry.since.Seconds();
    s.announced = std::exchange(entry.announced, true);
    for (int r = 0; r < static_cast<int>(job_ranks_.size()); ++r) {
      if (!entry.by_rank.contains(r) && !joined_.contains(r)) s.missing.push_back(r);
    }
  }
  return stalled;
}

}  // namespace dtrain::internal
