// bucket_exchange.h - how a bucket of gradients becomes its sum over all ranks.
// SPDX-License-Identifier: Apache-2.0
//
// GradientReducer knows buckets, their order and what was marked; an exchange knows how one
// travels. Every rank starts the same buckets in the same order, and lands all of them before the
// next step.
#ifndef DTRAIN_PARALLEL_INTERNAL_BUCKET_EXCHANGE_H_
#define DTRAIN_PARALLEL_INTERNAL_BUCKET_EXCHANGE_H_

#include <cstdint>

namespace dtrain::internal {

// Elements [begin, end) of the flat gradients.
struct BucketRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t elements() const { return end - begin; }
};

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

#endif  // DTRAIN_PARALLEL_INTERNAL_BUCKET_EXCHANGE_H_
