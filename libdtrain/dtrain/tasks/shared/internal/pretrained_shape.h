// pretrained_shape.h - shape and tokenizer of a pretrained BERT, from the files beside its weights.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_PRETRAINED_SHAPE_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_PRETRAINED_SHAPE_H_

#include "dtrain/base/status.h"

namespace dtrain::internal {

// Gives `config` the shape of model.pretrained's config.json or bert_config.json and, where they
// are not set, its vocab.txt and what tokenizer_config.json says of capitals and accents; nothing
// without model.pretrained. A checkpoint of bert_classify, bert_pretrain or bert_squad has no such
// JSON: shape, capitals, accents and tokenizer are then those of its config.textproto. Where the
// weights are gone and the run goes on from a checkpoint (of its own, or run.resume's), all of that
// is the checkpoint's, its vocabulary too.
// StorageError: no weights, or files that are there and cannot be used; UsageError: a run
// directory, no vocabulary, or texts longer than the model's positions. Config: proto::BertConfig,
// proto::PretrainConfig, proto::SquadConfig.
template <typename Config>
Status TakePretrainedShape(Config& config);

// The same as far as the files are there, and where the vocabulary is not, model.vocab_size of
// config.json. Whether a file said the shape.
template <typename Config>
StatusOr<bool> TakeShapeBeside(Config& config);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_PRETRAINED_SHAPE_H_
