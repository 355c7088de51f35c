// queue_shutdown.h - how the ranks end their queues together, and whose fault the end is.
// SPDX-License-Identifier: Apache-2.0
//
// A rank that ends its queue tells the others in its news. All ranks learn of the end in the same
// cycle, so all of them stop there.
#ifndef DTRAIN_COMM_INTERNAL_QUEUE_SHUTDOWN_H_
#define DTRAIN_COMM_INTERNAL_QUEUE_SHUTDOWN_H_

#include <string>
#include <utility>

#include "dtrain/comm/internal/collective_request.h"

namespace dtrain::internal {

class QueueShutdown {
 public:
  // This rank leaves in order: its data stay valid for what the others may still execute. No effect
  // if the end has a reason already.
  void Leave(std::string reason);
  // This rank gives up, and its data are gone.
  void GiveUp(std::string reason);

  bool has_reason() const { return !reason_.empty(); }
  // Why the queue ends, or "".
  const std::string& reason() const { return reason_; }
  bool HasNews() const { return has_reason() && !is_sent_; }
  // The request that reports the end to the other ranks. "" if there is none, or if it was taken
  // before.
  std::string TakeNews();

  // Takes such a request from any rank. The first one decides the reason.
  void Learn(const CollectiveRequest& request);
  // True once some rank has ended.
  bool has_ended() const { return has_ended_; }
  // True if some rank gave up: collectives that seem complete lack its data.
  bool is_broken() const { return is_broken_; }

 private:
  std::string reason_;
  bool in_order_ = false;  // this rank leaves in order
  bool is_sent_ = false;
  bool has_ended_ = false;
  bool is_broken_ = false;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_QUEUE_SHUTDOWN_H_
