// bucket_exchange.h - how a bucket of gradients becomes its sum over all ranks.
// SPDX-License-Identifier: Apache-2.0
//
// GradientReducer knows buckets, their order and what was marked; an exchange knows how one
// travels. Every rank starts the same buckets in the same order, and lands all of them before the
// next step.
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

// A sum over hosts goes through a host's memory, the network and that memory again: in pieces of at
// most so many elements one does while others do the rest.
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
  // Computes what is to travel; other buckets may move meanwhile.
  virtual void Prepare(int /*bucket*/) {}
  // Once after Prepare(), on the same thread.
  virtual void Start(int bucket) = 0;
  // Moves what was started, without waiting.
  virtual void Poll() = 0;
  // Until the next Start(), nothing moves but in calls of this object: the communicator is free.
  virtual void Pause() {}
  // Whether a started bucket has arrived, as far as is known without waiting: for timelines alone.
  virtual bool HasArrived(int /*bucket*/) { return false; }
  // By this rank, so far: whether something moves.
  virtual int64_t BytesSent() const { return 0; }
  // Waits until the bucket's sums are on their way into the flat gradients. Once after Start().
  virtual void Land(int bucket) = 0;
  // After the last Land() of a step: the sums are in the flat gradients, for whatever the device's
  // streams are given next.
  virtual void Settle() = 0;
  // Bytes of a bucket in the type that travels.
  virtual int64_t BytesOf(int bucket) const = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_BUCKET_EXCHANGE_H_
