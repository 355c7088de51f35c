// nccl_link.cc - connects, asks for errors, ends.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/nccl_link.h"

#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "dtrain/base/timer.h"

namespace dtrain::internal {
namespace {

// For the last bytes of an orderly end; ranks come there at about the same time.
constexpr double kFinalizeSeconds = 5.0;

}  // namespace

NcclLink::NcclLink(const NcclLibrary& nccl, const NcclUniqueId& id, int size, int rank)
    : nccl_(nccl), size_(size) {
  NcclConfig config;
  config.blocking = 0;
  const NcclResult begun = nccl.CommInitRankConfig(&handle_, size, id, rank, &config);
  if (begun == NcclResult::kSuccess || begun == NcclResult::kInProgress) return;
  failure_ = begun;
  last_words_ = nccl.GetLastError(nullptr);
  Abort();
}

NcclLink::~NcclLink() {
  if (handle_ == nullptr) return;
  static_cast<void>(is_finished_ ? nccl_.CommDestroy(handle_) : nccl_.CommAbort(handle_));
}

bool NcclLink::Finish() {
  if (handle_ == nullptr || State() != NcclResult::kSuccess) return false;
  static_cast<void>(nccl_.CommFinalize(handle_));
  const Timer timer;
  while (State() == NcclResult::kInProgress && timer.Seconds() < kFinalizeSeconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  is_finished_ = State() == NcclResult::kSuccess;
  return is_finished_;
}

NcclResult NcclLink::State() const {
  if (handle_ == nullptr) return failure_;
  NcclResult state = NcclResult::kSuccess;
  const NcclResult asked = nccl_.CommGetAsyncError(handle_, &state);
  return asked == NcclResult::kSuccess ? state : asked;
}

std::string NcclLink::ErrorText(NcclResult result) const {
  std::string words = last_words_;
  if (handle_ != nullptr) words = nccl_.GetLastError(handle_);
  return absl::StrCat(nccl_.GetErrorString(result), words.empty() ? "" : ": ", words);
}

void NcclLink::Abort() {
  if (handle_ == nullptr) return;
  last_words_ = nccl_.GetLastError(handle_);
  if (failure_ == NcclResult::kSuccess) failure_ = NcclResult::kInternalError;
  static_cast<void>(nccl_.CommAbort(handle_));
  handle_ = nullptr;
}

}  // namespace dtrain::internal
