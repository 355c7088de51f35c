// export.h - writes a trained translation model for Hugging Face's transformers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_EXPORT_H_
#define DTRAIN_TASKS_TRANSLATION_EXPORT_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/tasks/shared/hf_export.h"
#include "dtrain/tasks/translation/translation_model.h"

namespace dtrain {

// Writes config.json, generation_config.json, model.safetensors (float32), vocab.json, source.spm,
// target.spm, tokenizer_config.json and, for a vocabulary that dtrain learned, tokenizer.json into
// `directory`; config.json comes last, so that a folder with one is complete. A model that began
// with a published one has its tokenizer's files, its generation_config.json and the other keys of
// its config.json. Returns the class: "MarianMTModel" for post-norm models,
// "PegasusForConditionalGeneration" for pre-norm ones. UsageError: the folder is not empty, or the
// model fits neither class. StorageError: the disk.
StatusOr<std::string> ExportToHuggingFace(const TranslationModel& trained,
                                          const std::string& directory,
                                          const HfExportOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_EXPORT_H_
