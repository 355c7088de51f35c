// transport.h - messages between two ranks, over MPI or between threads.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_TRANSPORT_H_
#define DTRAIN_COMM_INTERNAL_TRANSPORT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace dtrain::internal {

// Non-blocking messages with tags. Messages of one sender with one tag arrive in the order in which
// they were sent. They match receives in the order in which those were posted. All functions throw
// CommError.
class Transport {
 public:
  using Request = int;
  // The largest message. Collectives cut longer ones.
  static constexpr size_t kMaxBytes = size_t{1} << 30;
  // Tags are below this.
  static constexpr int kTags = 1 << 15;
  // Collectives take tags in turns, four each. This many have tags of their own at the same time,
  // far more than are ever in flight.
  static constexpr int kTagTurns = 1 << 12;

  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // The memory must stay valid and, for Send, unchanged until Done() gave true.
  virtual Request Send(int peer, int tag, const void* data, size_t bytes) = 0;
  virtual Request Receive(int peer, int tag, void* data, size_t bytes) = 0;
  // True once the request has finished; the request is then invalid. Moves other requests too.
  virtual bool Done(Request request) = 0;
  // Gives up a receive; the request is then invalid.
  virtual void Cancel(Request request) = 0;

  // Throws if the job has failed on another rank. Waits call it, since no message may end them.
  virtual void Check() {}

  // Makes a transport among `ranks` of this one, numbered from 0 in this order; this rank is one of
  // them. Its messages never meet those of another context. Another thread may use it, also after
  // the end of this one.
  virtual std::unique_ptr<Transport> Split(std::span<const int> ranks, int context) = 0;
  // The next context that this process has not seen.
  int next_context() const { return *next_context_; }
  // Sets at least this context. Another thread may split another communicator at the same time.
  void RaiseNextContext(int context) {
    int seen = *next_context_;
    while (seen < context && !next_context_->compare_exchange_weak(seen, context)) {
    }
  }

  int64_t bytes_sent() const { return bytes_sent_; }
  // Counts finished requests. While it is unchanged, nothing moves.
  int64_t finished() const { return finished_; }

 protected:
  Transport() : next_context_(std::make_shared<std::atomic<int>>(1)) {}
  explicit Transport(std::shared_ptr<std::atomic<int>> next_context)
      : next_context_(std::move(next_context)) {}

  int64_t bytes_sent_ = 0;
  int64_t finished_ = 0;
  // All transports split from one share it.
  std::shared_ptr<std::atomic<int>> next_context_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_TRANSPORT_H_
