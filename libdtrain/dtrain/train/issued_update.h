// issued_update.h - what the host knows of an update once the device has been given its work.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_ISSUED_UPDATE_H_
#define DTRAIN_TRAIN_ISSUED_UPDATE_H_

#include <cstdint>

#include "dtrain/nn/loss_sums.h"
#include "dtrain/train/request_inbox.h"

namespace dtrain {

struct IssuedUpdate {
  int64_t step = 0;  // updates so far, this one included
  // Tokens are those of all ranks. Losses are those of this rank, and 0 if the task adds them up on
  // the device (Context::loss()).
  LossSums sums = {};
  int64_t own_tokens = 0;     // of this rank
  int64_t target_tokens = 0;  // so far, all ranks
  double epochs = 0.0;        // so far
  double learning_rate = 0.0;
  double source_tokens = 0.0;  // all ranks
  double data_seconds = 0.0;   // spent loading data, this rank
  double comm_seconds = 0.0;   // spent waiting for gradients, this rank
  double seconds = 0.0;        // training time by the root's clock, the same on every rank
  Requests requests = {};      // new requests of any rank
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_ISSUED_UPDATE_H_
