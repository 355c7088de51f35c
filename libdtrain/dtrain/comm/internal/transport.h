// transport.h - messages between two ranks: all that the collectives need from MPI or from threads.
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

// Non-blocking messages with tags. Messages of one sender with one tag arrive in the order they
// were sent and match receives in the order those were posted. All functions throw CommError.
class Transport {
 public:
  using Request = int;
  // The largest message; collectives cut longer ones.
  static constexpr size_t kMaxBytes = size_t{1} << 30;
  // Tags are below this.
  static constexpr int kTags = 1 << 15;

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

  // Throws where the job has failed on another rank. A wait that no message ends asks this.
  virtual void Check() {}

  // Among `ranks` of this transport, numbered from 0 in their order; this rank is one of them. Its
  // messages meet those of no other context. May be used by another thread, also after this one.
  virtual std::unique_ptr<Transport> Split(std::span<const int> ranks, int context) = 0;
  // The next context that this process has not seen.
  int next_context() const { return *next_context_; }
  // Another thread may have split another communicator meanwhile.
  void RaiseNextContext(int context) {
    int seen = *next_context_;
    while (seen < context && !next_context_->compare_exchange_weak(seen, context)) {
    }
  }

  int64_t bytes_sent() const { return bytes_sent_; }
  // Counts finished requests: unchanged means that nothing moved.
  int64_t finished() const { return finished_; }

 protected:
  Transport() : next_context_(std::make_shared<std::atomic<int>>(1)) {}
  explicit Transport(std::shared_ptr<std::atomic<int>> next_context)
      : next_context_(std::move(next_context)) {}

  int64_t bytes_sent_ = 0;
  int64_t finished_ = 0;
  // Shared by all transports split from one.
  std::shared_ptr<std::atomic<int>> next_context_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_TRANSPORT_H_
