// collective_queue.h - a thread that agrees with other ranks on collectives, and runs them.
// SPDX-License-Identifier: Apache-2.0
//
// Ranks go through cycles together. A cycle is one reduction of the ranks' votes: one bit per
// tensor in the cache, and a flag for news. If a rank has news (a tensor that is not in the cache,
// a join, a shutdown), the ranks gather the news of all. Then they execute what all are ready for.
// A rank takes part while it has something pending. Without it nothing can be ready, so no rank
// waits for a rank that sleeps here, and an idle queue costs nothing.
#ifndef DTRAIN_COMM_INTERNAL_COLLECTIVE_QUEUE_H_
#define DTRAIN_COMM_INTERNAL_COLLECTIVE_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dtrain/base/timeline.h"
#include "dtrain/comm/collectives.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/comm/internal/collective_agreement.h"
#include "dtrain/comm/internal/collective_executor.h"
#include "dtrain/comm/internal/pending_collectives.h"
#include "dtrain/comm/internal/queue_shutdown.h"
#include "dtrain/comm/internal/stall_watch.h"
#include "dtrain/comm/internal/submission_queue.h"
#include "dtrain/comm/internal/submitted_collective.h"
#include "dtrain/device/tensor.h"

namespace dtrain::internal {

// The part of the queue that a thread can see while it waits for a tensor.
struct QueueProgress {
  std::shared_ptr<Heartbeat> heartbeat{};
  // Counts the beginnings and the ends of exchanges: odd while tensors travel.
  std::atomic<int64_t> exchanges = 0;
};

class CollectiveQueue {
 public:
  CollectiveQueue(
      std::unique_ptr<Communicator> comm, const CollectivesOptions& options,
      TensorMaker make_tensor = [](const Shape& s, DType t) { return NewTensor(s, t); });
  ~CollectiveQueue();
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;

  // The result is finished at once if the queue is closed or the name is in flight.
  std::shared_ptr<CollectiveResult> Submit(std::unique_ptr<SubmittedCollective> collective);
  // Returns when no tensor of this rank is in use.
  void Abort(std::string_view reason) { submissions_.Abort(reason); }
  Collectives::Statistics statistics() const;
  // May outlive the queue.
  std::shared_ptr<const QueueProgress> progress() const { return progress_; }

 private:
  void Run();
  // False when the queue has ended.
  bool Cycle();
  void Accept();
  // Reduces the votes. Warns and times out meanwhile. False if this rank stops waiting.
  bool ReduceVotes(std::vector<uint64_t>* votes);
  // If a caller has called Abort(): fails what is pending. The next cycle tells the other ranks.
  void TakeAbort();
  void GiveUp(std::string reason);
  void Learn(const std::vector<std::string>& news);
  void Execute(std::vector<CollectiveWork> ready);
  void FinishJoin();
  // Ends a collective of this rank that all ranks are done with, and frees its name.
  void Finish(const SubmittedCollective& submitted, const CollectiveOutcome& outcome);
  // Records its span, then finishes its result.
  void End(const SubmittedCollective& submitted, const CollectiveOutcome& outcome);
  // Ends all that is pending, and all later submissions, with this outcome. See
  // PendingCollectives::TakeAll().
  void Close(const CollectiveOutcome& outcome, bool keep_voted = false);

  std::unique_ptr<Communicator> comm_;
  std::shared_ptr<QueueProgress> progress_ = std::make_shared<QueueProgress>();
  double cycle_seconds_;
  Timeline off_;        // used if the caller has no timeline
  Timeline* timeline_;  // never null
  SubmissionQueue submissions_;

  // Used by the thread alone.
  CollectiveExecutor executor_;
  PendingCollectives pending_;
  CollectiveAgreement agreement_;
  QueueShutdown shutdown_;
  StallWatch stalls_;
  bool is_voting_ = false;  // the other ranks have this rank's vote, or will have it

  std::atomic<int64_t> cycles_ = 0;
  std::atomic<int64_t> full_cycles_ = 0;
  std::thread thread_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_COLLECTIVE_QUEUE_H_
