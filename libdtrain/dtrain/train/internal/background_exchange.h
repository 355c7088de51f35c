// background_exchange.h - an exchange whose bytes move while the backward pass computes.
// SPDX-License-Identifier: Apache-2.0
//
// A collective over messages moves only when someone calls it: four steps across hosts for each
// piece, so that calls between ops, milliseconds apart, leave a network idle for most of the time.
// A thread calls every tenth of a millisecond instead, more seldom while this rank has nothing to
// send, from the first bucket's start until the gradients are waited for. It computes nothing but
// what a collective adds up, and sleeps while nothing is under way.
#ifndef DTRAIN_TRAIN_INTERNAL_BACKGROUND_EXCHANGE_H_
#define DTRAIN_TRAIN_INTERNAL_BACKGROUND_EXCHANGE_H_

#include <memory>

#include "dtrain/comm/communicator.h"
#include "dtrain/train/internal/bucket_exchange.h"

namespace dtrain::internal {

// `comm` is the exchange's, and outlives it. Nobody else calls it between a Start() and the next
// Pause() or Settle(), except through the result.
std::unique_ptr<BucketExchange> MoveInBackground(std::unique_ptr<BucketExchange> exchange,
                                                 const Communicator& comm);

}  // namespace dtrain::internal

#endif  // DTRAIN_TRAIN_INTERNAL_BACKGROUND_EXCHANGE_H_
