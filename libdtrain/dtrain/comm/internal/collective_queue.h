// collective_queue.h - the thread that negotiates and executes what ranks submit in any order.
// SPDX-License-Identifier: Apache-2.0
//
// Ranks go through cycles together. A cycle is one reduction (bitwise and) of a word of flags and
// one bit per tensor in the cache; where a rank has news (a tensor that is not in the cache, a
// join, a shutdown), the news of all ranks is gathered too; then what is ready is executed. A rank
// takes part as long as it has something pending: without that nothing can be ready, so that nobody
// is kept waiting by a rank that sleeps here, and an idle queue costs nothing.
#ifndef DTRAIN_COMM_INTERNAL_COLLECTIVE_QUEUE_H_
#define DTRAIN_COMM_INTERNAL_COLLECTIVE_QUEUE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/base/timeline.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/collectives.h"
#include "dtrain/comm/internal/collective_executor.h"
#include "dtrain/comm/internal/negotiation.h"
#include "dtrain/device/new_tensor.h"

namespace dtrain::internal {

// What a thread that waits for a queue's tensors sees of it.
struct QueueProgress {
  std::shared_ptr<Pulse> pulse{};
  std::atomic<int64_t> exchanges = 0;  // begun and ended ones: odd while tensors travel
};

class CollectiveQueue {
 public:
  CollectiveQueue(
      std::unique_ptr<Communicator> comm, const CollectivesOptions& options,
      TensorMaker make_tensor = [](const Shape& s, DType t) { return NewTensor(s, t); });
  ~CollectiveQueue();
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;

  // The result is finished at once where the queue is closed or the name is in flight.
  std::shared_ptr<CollectiveResult> Submit(std::unique_ptr<SubmittedCollective> collective);
  // Returns when this rank's tensors are in use no more.
  void Abort(std::string_view reason);
  Collectives::Statistics statistics() const;
  // May outlive the queue.
  std::shared_ptr<const QueueProgress> progress() const { return progress_; }

 private:
  struct Pending {
    std::unique_ptr<SubmittedCollective> submitted{};
    std::string text{};  // of the request
    int cached = -1;     // its number in the cache; -1: goes or went as a request
    bool sent = false;
    Timer since{};
  };
  using Submissions = std::vector<std::unique_ptr<SubmittedCollective>>;

  // Somebody waits: the next cycle begins without a pause.
  void Hurry();
  void Run();
  // False when the queue has ended.
  bool Cycle();
  // What was submitted since, after the pause between cycles.
  Submissions WaitForWork();
  void Accept(Submissions submissions);
  std::vector<uint64_t> Votes();
  // Reduces the votes; false where this rank gives up waiting. Warns and times out meanwhile.
  bool Vote(std::vector<uint64_t>* votes);
  void TakeAbort();
  void OnVoteStalled(const std::vector<int>& missing, double seconds);
  // The requests of this rank that the others have not seen.
  std::string News();
  void Learn(const std::vector<std::string>& news);
  void Forget(const std::string& name);
  // Numbers in the cache that all ranks voted for.
  std::vector<int> ReadyNumbers(const std::vector<uint64_t>& votes) const;
  void Execute(const std::vector<int>& ready_numbers);
  void Finish(const std::string& name, const CollectiveOutcome& outcome);
  // A collective of this rank's that was taken: its span, then its result.
  void End(const SubmittedCollective& submitted, const CollectiveOutcome& outcome);
  // A request of this rank's has ended: its name may be submitted again, or is the next barrier's.
  void FreeName(const CollectiveRequest& request);
  void FinishJoin();
  void WatchTable();
  // CloseWith(give_up_) while this rank's votes are out: the others may execute what it voted for,
  // and need its data once more. Copies of them stay for that.
  void GiveUp();
  // Seconds after which others are waited for too long.
  double StallSeconds() const;
  bool IsClosed() const;
  bool IsClosing() const;
  // Ends all that is pending, and all later submissions, like this.
  void Close(const CollectiveOutcome& outcome);
  void CloseWith(const std::string& message) { Close({ExitCode::kCommunication, message}); }
  std::string PendingNames() const;

  std::unique_ptr<Communicator> comm_;
  std::shared_ptr<QueueProgress> progress_ = std::make_shared<QueueProgress>();
  CollectivesOptions options_;
  Timeline off_;        // where the caller has none
  Timeline* timeline_;  // never null
  CollectiveExecutor executor_;
  Negotiation negotiation_;
  CollectiveCache cache_;

  // Of the thread.
  std::unordered_map<std::string, Pending> pending_;
  std::unique_ptr<SubmittedCollective> join_;
  bool join_sent_ = false;
  bool shutdown_sent_ = false;
  bool ended_ = false;          // some rank has
  bool broken_ = false;         // some rank gave up, its tensors with it
  bool left_in_order_ = false;  // this rank, by its destructor
  std::string give_up_;         // why this rank ends the queue
  bool voting_ = false;         // the others have this rank's votes, or will
  bool vote_announced_ = false;
  std::chrono::steady_clock::time_point last_cycle_;

  // Shared with the callers.
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Submissions submitted_;
  std::unordered_set<std::string> names_;  // in flight
  // Barriers of other threads, behind the one in flight.
  std::deque<std::unique_ptr<SubmittedCollective>> later_barriers_;
  CollectiveOutcome closed_;  // not OK: nothing is taken any more
  bool closing_ = false;
  bool hurry_ = false;
  int64_t nameless_ = 0;
  std::string abort_;     // why the caller wants the queue to end at once
  bool drained_ = false;  // no tensor of this rank is in use any more
  std::condition_variable drained_changed_;
  std::atomic<int64_t> cycles_ = 0;
  std::atomic<int64_t> full_cycles_ = 0;

  std::thread thread_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_COLLECTIVE_QUEUE_H_
