// bucket_exchange.h - how a bucket of gradients becomes its sum over all ranks.
// SPDX-License-Identifier: Apache-2.0
//
// GradientReducer knows the buckets, their order and the complete gradients. An exchange knows how
// a bucket travels. Every rank starts the same buckets in the same order, and lands all of them
// before the next step.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_BUCKET_EXCHANGE_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_BUCKET_EXCHANGE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dtrain::internal {

// Elements [begin, end) of the flat gradients.
struct BucketRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t elements() const { return end - begin; }
};

// A sum over hosts passes a host's memory, the network and that memory again. With pieces of at
// most this many elements, different pieces do so at the same time.
inline constexpr int64_t kPieceElements = 1 << 19;
inline std::vector<BucketRange> PiecesOf(const BucketRange& range) {
  const int64_t count =
      std::max<int64_t>(1, (range.elements() + kPieceElements - 1) / kPieceElements);
  std::vector<BucketRange> pieces;
  for (int64_t i = 0; i < count; ++i) {
    pieces.push_back({range.begin + range.elements() * i / count,
                      range.begin + range.elements() * (i + 1) / count});
  }
  return pieces;
}

class BucketExchange {
 public:
  virtual ~BucketExchange() = default;
  // The bucket's gradients are complete on this rank and stay untouched until it has landed.
  // Computes the values that travel. Other buckets may move meanwhile.
  virtual void Prepare(int /*bucket*/) {}
  // Called once after Prepare(), on the same thread.
  virtual void Start(int bucket) = 0;
  // Moves the started buckets, without waiting.
  virtual void Poll() = 0;
  // Until the next Start() buckets move only in calls of this object, so the communicator is free.
  virtual void Pause() {}
  // True if a started bucket is known to have arrived, without waiting. Only timelines use it.
  virtual bool HasArrived(int /*bucket*/) { return false; }
  // The bytes that this rank has sent so far. A change shows that something moves.
  virtual int64_t BytesSent() const { return 0; }
  // Waits until the bucket's sums are on their way into the flat gradients. Called once after
  // Start().
  virtual void Land(int bucket) = 0;
  // Called after the last Land() of a step. Then the sums are in the flat gradients for all work
  // that the device's streams get later.
  virtual void Settle() = 0;
  // The bytes of a bucket in the wire type.
  virtual int64_t BytesOf(int bucket) const = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_BUCKET_EXCHANGE_H_
