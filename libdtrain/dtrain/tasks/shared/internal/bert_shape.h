// bert_shape.h - the head of a configuration of BERT, as far as files of this machine say its size.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_BERT_SHAPE_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_BERT_SHAPE_H_

#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/shared/bert_head.h"

namespace dtrain::internal {

// Gives `config` the shape beside model.pretrained, where it is there, and model.vocab_size: the
// pieces of the vocabulary, those of a config.json, or BERT's 30,522. `notes` receives a line for
// each file that would have said it and is not here.
// UsageError: model.pretrained is not here, and the configuration has no shape of its own.
// StorageError: files that are there and cannot be used.
// Config: proto::BertConfig, proto::PretrainConfig, proto::SquadConfig.
template <typename Config>
Status TakeShape(Config& config, std::vector<std::string>& notes);

// Of a configuration with model.vocab_size. Two classes where only the data says how many.
// UsageError: a task of GLUE that there is not.
template <typename Config>
StatusOr<BertHead> HeadOf(const Config& config);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_BERT_SHAPE_H_
