// plain_exchange.h - sums buckets by the communicator's allreduce, in the wire type.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_PLAIN_EXCHANGE_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_PLAIN_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/distributed/internal/bucket_exchange.h"
#include "dtrain/distributed/internal/host_gradients.h"

namespace dtrain::internal {

// wire_type: float32, bfloat16 or float16 (distributed/gradient_reducer.h says how values are
// rounded). slices: empty if all ranks receive all sums. Otherwise each rank receives the sums of
// its slice alone: for each bucket, the elements at which the ranks' slices begin and the last one
// ends, [size + 1]. `comm` outlives the exchange.
std::unique_ptr<BucketExchange> MakePlainExchange(std::shared_ptr<HostGradients> gradients,
                                                  std::vector<BucketRange> buckets,
                                                  Communicator& comm, DType wire_type,
                                                  std::vector<std::vector<int64_t>> slices = {});

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_PLAIN_EXCHANGE_H_
