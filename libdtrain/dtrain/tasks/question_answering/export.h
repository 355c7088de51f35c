// export.h - writes a model that answers questions for Hugging Face's transformers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_EXPORT_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_EXPORT_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/tasks/shared/hf_export.h"

namespace dtrain {

// Writes config.json, model.safetensors (float32), vocab.txt, tokenizer_config.json and
// special_tokens_map.json of a checkpoint of bert_squad, for BertForQuestionAnswering
// and BertTokenizer. Returns the class. StorageError: the checkpoint is damaged or of another
// program. UsageError: the folder is not empty.
StatusOr<std::string> ExportSquadToHuggingFace(const std::string& checkpoint_path,
                                               const std::string& directory,
                                               const HfExportOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_EXPORT_H_
