// bert_export.h - what all BERTs have in common under the names and in the layout of transformers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_BERT_EXPORT_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_BERT_EXPORT_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/models/bert_encoder.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/runs/checkpoint.h"
#include "dtrain/tasks/shared/hf_export.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain::internal {

// A BERT with whichever head; `encoder` and `parameters` belong to the model, which outlives this.
struct BertExport {
  std::string head;  // how the name of transformers' class ends: "SequenceClassification"
  const BertOptions& encoder;
  ParameterSet& parameters;            // in host memory
  WordPieceOptions tokenization = {};  // of the texts it was trained on
  std::optional<float> classifier_dropout = std::nullopt;
  std::optional<bool> mean_pooling = std::nullopt;  // in classifiers
  std::string pretrained = "";                      // the model that adapters are for
  // Further fields of config.json that this class reads.
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();

  // The class of transformers whose names and shapes the parameters have.
  std::string class_name() const { return std::string(encoder.family->class_name) + "For" + head; }
};

// With options.adapter writes the folder of internal/peft_folder.h. Otherwise
// writes model.safetensors (float32), the checkpoint's vocab.txt, special_tokens_map.json,
// tokenizer_config.json for the family's tokenizer, and last config.json. UsageError: the folder is
// not empty and may not be overwritten. StorageError: the checkpoint's vocabulary, or the disk.
Status WriteBertExport(const BertExport& model, const Checkpoint& checkpoint,
                       const std::string& directory, const HfExportOptions& options);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_BERT_EXPORT_H_
