// queue_shutdown.cc - the end of a queue as a request among the news.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/queue_shutdown.h"

namespace dtrain::internal {

void QueueShutdown::Leave(std::string reason) {
  if (has_reason()) return;
  reason_ = std::move(reason);
  in_order_ = true;
}

void QueueShutdown::GiveUp(std::string reason) {
  reason_ = std::move(reason);
  in_order_ = false;
}

std::string QueueShutdown::TakeNews() {
  if (!HasNews()) return "";
  is_sent_ = true;
  CollectiveRequest request{.name = "shutdown", .kind = CollectiveKind::kShutdown};
  request.refusal = reason_;
  request.root = in_order_ ? 0 : 1;
  return request.Text();
}

void QueueShutdown::Learn(const CollectiveRequest& request) {
  if (!has_ended_) reason_ = request.refusal;
  has_ended_ = true;
  is_broken_ = is_broken_ || request.root != 0;
}

}  // namespace dtrain::internal
