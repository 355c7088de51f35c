// low_rank.h - the section `lora` as options, and its checks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_LOW_RANK_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_LOW_RANK_H_

#include "dtrain/base/status.h"
#include "dtrain/models/bert_encoder.h"
#include "dtrain/nn/frozen_parameters.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/nn/transformer_layer.h"

namespace dtrain::proto {
class LoraConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

// `names` gives the targets where the section has none: those that Hu et al. chose, queries and
// values.
LowRankOptions LowRankOf(const proto::LoraConfig& lora, const AttentionNames& names);

// UsageError: there are no weights to start from (`has_weights`), or no rank for the rest of the
// section.
Status ValidateLora(const proto::LoraConfig& lora, bool has_weights);

// UsageError unless each target is a linear layer of the model with these parameters.
Status CheckTargets(const LowRankOptions& options, const FrozenParameters& frozen);
// The same for an encoder that does not exist yet.
Status CheckTargets(const BertOptions& encoder);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_LOW_RANK_H_
