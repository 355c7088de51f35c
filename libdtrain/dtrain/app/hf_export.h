// hf_export.h - writes a trained model as a folder that Hugging Face's transformers loads.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_APP_HF_EXPORT_H_
#define DTRAIN_APP_HF_EXPORT_H_

#include <string>

#include "dtrain/app/translation_model.h"
#include "dtrain/base/status.h"

namespace dtrain {

struct HfExportOptions {
  bool overwrite = false;  // replace files of an earlier export
};

// Writes config.json, generation_config.json, model.safetensors (float32), vocab.json, source.spm,
// target.spm, tokenizer.json and tokenizer_config.json into `directory`; config.json comes last, so
// that a folder with one is whole. Returns the class: "MarianMTModel" for post-norm models,
// "PegasusForConditionalGeneration" for pre-norm ones. UsageError: the folder is not empty, or the
// model fits neither class; StorageError: the disk.
absl::StatusOr<std::string> ExportToHuggingFace(const TranslationModel& trained,
                                                const std::string& directory,
                                                const HfExportOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_APP_HF_EXPORT_H_
