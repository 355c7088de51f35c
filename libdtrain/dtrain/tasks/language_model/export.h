// export.h - writes a trained language model for Hugging Face's transformers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_LANGUAGE_MODEL_EXPORT_H_
#define DTRAIN_TASKS_LANGUAGE_MODEL_EXPORT_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/tasks/shared/hf_export.h"

namespace dtrain {

// Writes config.json, model.safetensors (float32), tokenizer.json, tokenizer_config.json and
// generation_config.json into `directory`, and returns the class that loads it: GPT2LMHeadModel.
// The tokenizer makes a token of each byte and puts the mark before a text. UsageError: the folder
// is not empty and may not be overwritten.
StatusOr<std::string> ExportLanguageModelToHuggingFace(const std::string& checkpoint_path,
                                                       const std::string& directory,
                                                       const HfExportOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_TASKS_LANGUAGE_MODEL_EXPORT_H_
