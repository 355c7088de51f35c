// submitted_collective.h - a collective that this rank submitted, and the result its caller awaits.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_SUBMITTED_COLLECTIVE_H_
#define DTRAIN_COMM_INTERNAL_SUBMITTED_COLLECTIVE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/internal/collective_request.h"
#include "dtrain/device/stream_order.h"
#include "dtrain/device/tensor.h"

namespace dtrain::internal {

// How a collective ended. The queue's thread and the callers each make a status of their own from
// it, because copies of one status share memory.
struct CollectiveOutcome {
  ExitCode code = ExitCode::kDone;
  std::string message{};

  bool ok() const { return code == ExitCode::kDone; }
  Status status() const;
};

// The state that a handle shares with the queue.
struct CollectiveResult {
  std::mutex mutex;
  std::condition_variable finished;
  std::atomic<bool> done = false;
  CollectiveOutcome outcome;
  Tensor output;
  std::vector<int64_t> rows;
  int last_joined = -1;
  // The waiting thread calls it, so that the queue's next cycle begins without a pause.
  std::function<void()> hurry;

  // Wakes the waiting threads. Later calls change nothing.
  void Finish(CollectiveOutcome how);
};

struct SubmittedCollective {
  CollectiveRequest request;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;  // of a reduction or broadcast; they may be the inputs
  // If a GPU still computes the inputs: the point in its stream after which they are complete.
  std::unique_ptr<StreamMark> ready;
  std::shared_ptr<CollectiveResult> result;
  int64_t since = 0;  // Timeline::Now() at the submission, or 0 if the timeline was off
};
using Submissions = std::vector<std::unique_ptr<SubmittedCollective>>;

// Copies a submission with its tensors. Nobody waits for the result of the copy.
std::unique_ptr<SubmittedCollective> CopyOf(const SubmittedCollective& submitted);

// A collective that all ranks agreed on, with this rank's tensors.
struct CollectiveWork {
  AgreedCollective agreed;
  // Null if this rank has joined.
  std::unique_ptr<SubmittedCollective> submitted;
  // The outputs on the GPU, if the collective passes through the host's memory.
  std::vector<Tensor> gpu_outputs{};
  // The tensor that the collective makes: on the host, and its destination on the GPU. With NCCL
  // the first is on the GPU, and there is no second.
  Tensor made{}, gpu_made{};
};

// Every rank throws it at the same place: some rank cannot do what all ranks had agreed on.
class CollectiveError : public std::runtime_error {
 public:
  CollectiveError(ExitCode code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_SUBMITTED_COLLECTIVE_H_
