// export.h - writes a trained classifier for Hugging Face's transformers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_EXPORT_H_
#define DTRAIN_TASKS_CLASSIFICATION_EXPORT_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/tasks/shared/hf_export.h"

namespace dtrain {

// Writes config.json, model.safetensors (float32), vocab.txt, tokenizer_config.json and
// special_tokens_map.json of a checkpoint of bert_classify, for BertForSequenceClassification
// and BertTokenizer. Returns the class. StorageError: the checkpoint is damaged or of another
// program. UsageError: the folder is not empty.
StatusOr<std::string> ExportClassifierToHuggingFace(const std::string& checkpoint_path,
                                                    const std::string& directory,
                                                    const HfExportOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_EXPORT_H_
