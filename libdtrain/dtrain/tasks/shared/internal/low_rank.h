// low_rank.h - the section `lora` as options, and its checks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_LOW_RANK_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_LOW_RANK_H_

#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/models/bert_encoder.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/nn/transformer_layer.h"

namespace dtrain::proto {
class LoraConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

// `names` gives the targets where the section has none: those that Hu et al. chose, queries and
// values.
LowRankOptions LowRankOf(const proto::LoraConfig& lora, const AttentionNames& names);

// UsageError: there are no weights to start from (`has_weights`; `keys` name them), or no rank for
// the rest of the section.
Status ValidateLora(const proto::LoraConfig& lora, bool has_weights, std::string_view keys);

// UsageError unless each target is a linear layer of a model of this shape.
Status CheckTargets(const BertOptions& options);
Status CheckTargets(const Seq2SeqOptions& options);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_LOW_RANK_H_
