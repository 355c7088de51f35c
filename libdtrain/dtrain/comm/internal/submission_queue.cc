// submission_queue.cc - names in flight, barriers in turns, and waiting for work.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/submission_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/status.h"

namespace dtrain::internal {
namespace {

std::chrono::steady_clock::duration Duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

}  // namespace

void SubmissionQueue::Submit(std::unique_ptr<SubmittedCollective> collective) {
  const std::lock_guard lock(mutex_);
  std::string& name = collective->request.name;
  if (name.empty()) {
    name = absl::StrCat("nameless ", ToAbsl(Name(collective->request.kind)), " ", nameless_++);
  }
  CollectiveResult& result = *collective->result;
  if (!closed_.ok()) {
    result.Finish(closed_);
  } else if (collective->request.kind == CollectiveKind::kBarrier && names_.contains(name)) {
    // Each of several threads may be at a barrier. Which of them overlap differs between ranks.
    // They take turns, so that each rank's n-th barrier meets the others' n-th.
    later_barriers_.push_back(std::move(collective));
  } else if (!names_.insert(name).second) {
    result.Finish({ExitCode::kUsage, absl::StrCat("\"", name,
                                                  "\" is in flight already: wait for it, or give "
                                                  "this one a name of its own")});
  } else {
    submitted_.push_back(std::move(collective));
    wake_.notify_all();
  }
}

void SubmissionQueue::Hurry() {
  const std::lock_guard lock(mutex_);
  hurry_ = true;
  wake_.notify_all();
}

void SubmissionQueue::Abort(std::string_view reason) {
  std::unique_lock lock(mutex_);
  if (abort_.empty()) abort_ = reason;
  wake_.notify_all();
  drained_.wait(lock, [&] { return is_drained_; });
}

void SubmissionQueue::Leave(bool has_failed) {
  const std::lock_guard lock(mutex_);
  if (has_failed && abort_.empty()) abort_ = "its work has failed";
  is_leaving_ = true;
  wake_.notify_all();
}

SubmissionQueue::Intake SubmissionQueue::WaitForWork(double cycle_seconds, bool has_work) {
  std::unique_lock lock(mutex_);
  wake_.wait(lock,
             [&] { return has_work || is_leaving_ || !abort_.empty() || !submitted_.empty(); });
  wake_.wait_until(lock, last_cycle_ + Duration(cycle_seconds),
                   [&] { return is_leaving_ || hurry_; });
  hurry_ = false;
  last_cycle_ = std::chrono::steady_clock::now();
  return {std::exchange(submitted_, {}), is_leaving_};
}

void SubmissionQueue::FreeName(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (!later_barriers_.empty() && later_barriers_.front()->request.name == name) {
    submitted_.push_back(std::move(later_barriers_.front()));
    later_barriers_.pop_front();
  } else {
    names_.erase(name);
  }
}

std::string SubmissionQueue::AbortReason() const {
  const std::lock_guard lock(mutex_);
  return closed_.ok() ? abort_ : "";
}

bool SubmissionQueue::IsLeaving() const {
  const std::lock_guard lock(mutex_);
  return is_leaving_;
}

bool SubmissionQueue::IsClosed() const {
  const std::lock_guard lock(mutex_);
  return !closed_.ok();
}

Submissions SubmissionQueue::Close(const CollectiveOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  if (closed_.ok()) closed_ = outcome;
  Submissions left = std::exchange(submitted_, {});
  for (auto& barrier : later_barriers_) left.push_back(std::move(barrier));
  later_barriers_.clear();
  names_.clear();
  return left;
}

void SubmissionQueue::SetDrained() {
  const std::lock_guard lock(mutex_);
  is_drained_ = true;
  drained_.notify_all();
}

}  // namespace dtrain::internal
