// submission_queue.h - hands collectives from the callers' threads to the queue's own thread.
// SPDX-License-Identifier: Apache-2.0
//
// It owns the names in flight, the requests to end the queue, and the state that callers wait for.
// Any thread may call any function.
#ifndef DTRAIN_COMM_INTERNAL_SUBMISSION_QUEUE_H_
#define DTRAIN_COMM_INTERNAL_SUBMISSION_QUEUE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include "dtrain/comm/internal/submitted_collective.h"

namespace dtrain::internal {

class SubmissionQueue {
 public:
  // For callers. Names a nameless collective. Finishes its result at once if the queue is closed or
  // its name is in flight; a second barrier waits until the first has ended.
  void Submit(std::unique_ptr<SubmittedCollective> collective);
  // A caller waits: the next cycle begins without a pause.
  void Hurry();
  // Asks the queue to end at once. Returns when no tensor of this rank is in use.
  void Abort(std::string_view reason);
  // Asks the queue to end in order, or at once if `has_failed`.
  void Leave(bool has_failed);

  // For the queue's thread.
  struct Intake {
    Submissions submissions;
    bool is_leaving = false;
  };
  // Waits until there is work, then until `cycle_seconds` have passed since the last call.
  // has_work: the caller has some already.
  Intake WaitForWork(double cycle_seconds, bool has_work);
  // A collective has ended: its name may be submitted again, and the next barrier of that name
  // follows.
  void FreeName(const std::string& name);
  // Why a caller wants the queue to end at once; "" if none does, or if the queue is closed.
  std::string AbortReason() const;
  bool IsLeaving() const;
  bool IsClosed() const;
  // Later submissions end like this. Returns those that are still here; the caller ends them. The
  // first outcome holds.
  Submissions Close(const CollectiveOutcome& outcome);
  // Lets Abort() return.
  void SetDrained();

 private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Submissions submitted_;
  std::unordered_set<std::string> names_;  // in flight
  // Barriers of other threads, which follow the one in flight.
  std::deque<std::unique_ptr<SubmittedCollective>> later_barriers_;
  CollectiveOutcome closed_;  // not OK once the queue is closed
  bool is_leaving_ = false;
  bool hurry_ = false;
  int64_t nameless_ = 0;  // collectives submitted without a name
  std::string abort_;     // the reason of Abort(), or ""
  bool is_drained_ = false;
  std::condition_variable drained_;
  std::chrono::steady_clock::time_point last_cycle_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_SUBMISSION_QUEUE_H_
