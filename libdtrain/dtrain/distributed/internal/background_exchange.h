// background_exchange.h - an exchange whose bytes move while the backward pass computes.
// SPDX-License-Identifier: Apache-2.0
//
// A collective over messages moves only when someone calls it: four steps across hosts for each
// piece, so that calls between ops, milliseconds apart, leave a network idle for most of the time.
// A thread calls every tenth of a millisecond instead, more seldom while this rank has nothing to
// send, from the first bucket's start until the gradients are waited for. It computes what a
// collective adds up and PowerSGD's second factors, and sleeps while nothing is under way.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_BACKGROUND_EXCHANGE_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_BACKGROUND_EXCHANGE_H_

#include <memory>

#include "dtrain/distributed/internal/bucket_exchange.h"

namespace dtrain::internal {

// Nobody else calls the exchange's communicator between a Start() and the next Pause() or Settle(),
// nor the exchange itself but between steps, except through the result.
std::unique_ptr<BucketExchange> MoveInBackground(std::unique_ptr<BucketExchange> exchange);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_BACKGROUND_EXCHANGE_H_
