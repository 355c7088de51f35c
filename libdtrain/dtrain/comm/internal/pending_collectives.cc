// pending_collectives.cc - this rank's tensors by name, and its join.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/pending_collectives.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dtrain::internal {
namespace {

constexpr size_t kNamed = 5;  // tensors named in a message

}  // namespace

void PendingCollectives::Add(std::unique_ptr<SubmittedCollective> submitted,
                             const CollectiveCache& cache) {
  if (submitted->request.kind == CollectiveKind::kJoin) {
    join_ = std::move(submitted);
    is_join_sent_ = false;
    return;
  }
  Entry entry{.submitted = std::move(submitted)};
  const CollectiveRequest& request = entry.submitted->request;
  entry.text = request.Text();
  entry.cached = cache.Find(request.name, entry.text);
  tensors_.emplace(request.name, std::move(entry));
}

void PendingCollectives::Forget(const std::string& name) {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) found->second.cached = -1;
}

void PendingCollectives::AnnounceOlderThan(double seconds) {
  for (auto& [name, entry] : tensors_) {
    if (entry.cached >= 0 && entry.since.Seconds() > seconds) entry.cached = -1;
  }
}

bool PendingCollectives::HasNews() const {
  if (join_ && !is_join_sent_) return true;
  return std::ranges::any_of(
      tensors_, [](const auto& named) { return named.second.cached < 0 && !named.second.is_sent; });
}

std::string PendingCollectives::TakeNews() {
  std::string news;
  for (auto& [name, entry] : tensors_) {
    if (entry.cached >= 0 || std::exchange(entry.is_sent, true)) continue;
    news += entry.text;
  }
  if (join_ && !std::exchange(is_join_sent_, true)) {
    news += CollectiveRequest{.name = kJoinName, .kind = CollectiveKind::kJoin}.Text();
  }
  return news;
}

std::vector<int> PendingCollectives::CachedNumbers() const {
  std::vector<int> numbers;
  for (const auto& [name, entry] : tensors_) {
    if (entry.cached >= 0) numbers.push_back(entry.cached);
  }
  return numbers;
}

std::unique_ptr<SubmittedCollective> PendingCollectives::Take(const std::string& name) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return nullptr;
  std::unique_ptr<SubmittedCollective> submitted = std::move(found->second.submitted);
  tensors_.erase(found);
  return submitted;
}

std::unique_ptr<SubmittedCollective> PendingCollectives::TakeJoin() {
  return std::exchange(join_, nullptr);
}

Submissions PendingCollectives::TakeAll(bool keep_voted) {
  std::unordered_map<std::string, Entry> kept;
  for (const auto& [name, entry] : tensors_) {
    if (!keep_voted || entry.cached < 0) continue;
    kept.emplace(
        name,
        Entry{.submitted = CopyOf(*entry.submitted), .text = entry.text, .cached = entry.cached});
  }
  Submissions all;
  for (auto& [name, entry] : tensors_) all.push_back(std::move(entry.submitted));
  if (join_) all.push_back(TakeJoin());
  tensors_ = std::move(kept);
  return all;
}

std::string PendingCollectives::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : tensors_) names.push_back(absl::StrCat("\"", name, "\""));
  std::sort(names.begin(), names.end());
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kNamed) absl::StrAppend(&text, " and ", names.size() - kNamed, " more");
  return text;
}

}  // namespace dtrain::internal
