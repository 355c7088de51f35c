// compressed_exchange.h - what the reducer tells an exchange that compresses, and its memory.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_COMPRESSED_EXCHANGE_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_COMPRESSED_EXCHANGE_H_

#include <cstdint>

#include "dtrain/device/tensor.h"
#include "dtrain/distributed/internal/bucket_exchange.h"
#include "dtrain/distributed/internal/power_sgd_memory.h"

namespace dtrain::internal {

class CompressedExchange : public BucketExchange {
 public:
  // [1] float32: the factor of a step's gradients, a power of two. Read when the step's first
  // bucket starts.
  virtual void SetGradientScale(const Tensor& scale) = 0;
  // The tokens of all ranks in a step. Call it between steps.
  virtual void SetGradientTokens(double tokens) = 0;
  // The number of steps so far, for a resumed run.
  virtual void SetStep(int64_t step) = 0;
  // Null until matrices are compressed. Use it between steps. What a GPU remembers is copied into
  // the host's memory.
  virtual PowerSgdMemory* memory() = 0;
  // The memory was changed.
  virtual void PutMemory() {}
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_COMPRESSED_EXCHANGE_H_
