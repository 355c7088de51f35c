// summed_gradients.h - every rank applies the sum of all ranks' gradients.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_SUMMED_GRADIENTS_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_SUMMED_GRADIENTS_H_

#include "dtrain/distributed/internal/reduced_gradients.h"

namespace dtrain::internal {

class SummedGradients final : public ReducedGradients {
 public:
  SummedGradients(const GradientStrategyOptions& options, const Replica& replica)
      : ReducedGradients(options.reducer, replica), adam_(replica.parameters, options.adam) {}

  Adam& optimizer() override { return adam_; }

 private:
  Adam adam_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_SUMMED_GRADIENTS_H_
