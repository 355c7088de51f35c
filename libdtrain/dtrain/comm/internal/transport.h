// transport.h - messages between two ranks: all that the collectives need from MPI or from threads.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_TRANSPORT_H_
#define DTRAIN_COMM_INTERNAL_TRANSPORT_H_

#include <cstddef>
#include <cstdint>

namespace dtrain::internal {

// Non-blocking messages with tags. Messages of one sender with one tag arrive in the order they
// were sent and match receives in the order those were posted. All functions throw CommError.
class Transport {
 public:
  using Request = int;
  // The largest message; collectives cut longer ones.
  static constexpr size_t kMaxBytes = size_t{1} << 30;

  virtual ~Transport() = default;

  // The memory must stay valid and, for Send, unchanged until Done() gave true.
  virtual Request Send(int peer, int tag, const void* data, size_t bytes) = 0;
  virtual Request Receive(int peer, int tag, void* data, size_t bytes) = 0;
  // True once the request has finished; the request is then invalid. Moves other requests too.
  virtual bool Done(Request request) = 0;
  // Gives up a receive; the request is then invalid.
  virtual void Cancel(Request request) = 0;

  int64_t bytes_sent() const { return bytes_sent_; }
  // Counts finished requests: unchanged means that nothing moved.
  int64_t finished() const { return finished_; }

 protected:
  int64_t bytes_sent_ = 0;
  int64_t finished_ = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_TRANSPORT_H_
