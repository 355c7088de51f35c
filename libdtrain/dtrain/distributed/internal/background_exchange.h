// background_exchange.h - moves the bytes of an exchange by a thread, while backward computes.
// SPDX-License-Identifier: Apache-2.0
//
// A collective over messages moves only when it is called, and needs four steps across hosts for
// each piece. Calls between ops are milliseconds apart, so they would leave the network idle for
// most of the time. Instead a thread calls it every tenth of a millisecond, or less often while
// this rank has nothing to send. It does so from the start of the first bucket until the gradients
// are awaited. The thread also computes the sums of collectives and PowerSGD's second factors. It
// sleeps while nothing is under way.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_BACKGROUND_EXCHANGE_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_BACKGROUND_EXCHANGE_H_

#include <memory>

#include "dtrain/distributed/internal/bucket_exchange.h"

namespace dtrain::internal {

// Between a Start() and the next Pause() or Settle() nothing else may use the communicator of the
// exchange. The exchange itself may be called between steps only, except through the result.
std::unique_ptr<BucketExchange> MoveInBackground(std::unique_ptr<BucketExchange> exchange);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_BACKGROUND_EXCHANGE_H_
