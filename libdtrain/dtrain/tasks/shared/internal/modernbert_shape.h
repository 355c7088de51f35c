// modernbert_shape.h - the keys of config.json that only ModernBERT has, read and written.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_MODERNBERT_SHAPE_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_MODERNBERT_SHAPE_H_

#include <nlohmann/json.hpp>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/bert.pb.h"
#include "dtrain/models/bert_encoder.h"

namespace dtrain::internal {

// Sets windows and, unless the configuration sets them, thetas and the pooling. Versions 4 and 5 of
// transformers spell some of them differently; both are read. Returns StorageError for values
// with which the weights would be another function than dtrain computes. `path` is the file.
Status TakeModernBertShape(const nlohmann::json& json, const std::string& path,
                           proto::BertModelConfig& model);

// Adds those keys to `json`, in the spellings of both versions.
void AddModernBertKeys(const BertOptions& encoder, nlohmann::ordered_json& json);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_MODERNBERT_SHAPE_H_
