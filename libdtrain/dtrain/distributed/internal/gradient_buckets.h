// gradient_buckets.h - how flat gradients are cut into buckets, and which of them are complete.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_GRADIENT_BUCKETS_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_GRADIENT_BUCKETS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/distributed/gradient_reducer.h"

namespace dtrain::internal {

struct BucketSizes {
  int64_t bytes = 0;          // of float32; a larger parameter is a bucket by itself
  int64_t first_bytes = 0;    // of the first bucket
  int64_t scatter_block = 0;  // not 0: buckets begin at multiples of this many elements
  // Not 0: the number of ranks, whose slices of a bucket have the same number of blocks. What the
  // last bucket has beyond that is added to the last rank's slice.
  int equal_slices = 0;
};

// The bucket of each parameter. A bucket ends where a parameter ends.
std::vector<int> CutBuckets(std::span<const GradientRange> parameters, const BucketSizes& sizes);

class GradientBuckets {
 public:
  // `parameters` are ascending, without gaps, and cover `elements` elements; else CheckError.
  GradientBuckets(std::vector<GradientRange> parameters, int64_t elements,
                  const BucketSizes& sizes);

  const std::vector<GradientRange>& parameters() const { return parameters_; }
  int count() const { return static_cast<int>(buckets_.size()); }
  // The first element of a bucket. For count(): the number of elements.
  int64_t begin_of(int bucket) const {
    return bucket == count() ? elements_ : buckets_[static_cast<size_t>(bucket)].begin;
  }
  // If buckets are scattered: rank r of `ranks` has elements [offsets[r], offsets[r + 1]).
  std::vector<int64_t> SliceOffsets(int bucket, int ranks) const;

  // The gradient of parameters[index] is complete. True if all of its bucket are. CheckError if it
  // was marked before.
  bool Mark(int index);
  bool IsComplete(int bucket) const { return buckets_[static_cast<size_t>(bucket)].missing == 0; }
  // Throws CheckError, which names them, if gradients were not marked.
  void CheckAllMarked() const;
  // The next step begins: nothing is marked.
  void Reset();

 private:
  struct Bucket {
    int64_t begin = 0;
    int parameters = 0;
    int missing = 0;
  };

  std::vector<GradientRange> parameters_;
  int64_t elements_;
  int64_t scatter_block_;
  int equal_slices_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // by parameter
  std::vector<bool> marked_;    // by parameter
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_GRADIENT_BUCKETS_H_
