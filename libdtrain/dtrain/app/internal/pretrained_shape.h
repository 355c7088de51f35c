// pretrained_shape.h - the shape of a pretrained BERT, as the files beside its weights say it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_APP_INTERNAL_PRETRAINED_SHAPE_H_
#define DTRAIN_APP_INTERNAL_PRETRAINED_SHAPE_H_

#include "dtrain/base/status.h"

namespace dtrain::proto {
class BertConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

// Gives `config` the shape of model.pretrained's config.json or bert_config.json, and its vocab.txt
// where no vocabulary is set; nothing without model.pretrained. StorageError: files that are there
// and cannot be used; UsageError: no vocabulary, or texts longer than the model's positions.
absl::Status TakePretrainedShape(proto::BertConfig& config);

}  // namespace dtrain::internal

#endif  // DTRAIN_APP_INTERNAL_PRETRAINED_SHAPE_H_
