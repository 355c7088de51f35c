// hf_export.h - options and results of writing a model for Hugging Face's transformers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_HF_EXPORT_H_
#define DTRAIN_TASKS_SHARED_HF_EXPORT_H_

#include <string>

namespace dtrain {

struct HfExportOptions {
  bool overwrite = false;  // replaces the files of an earlier export of any kind
  // Writes the adapters and the head alone, for the peft library, instead of a whole model whose
  // weights have the adapters in them.
  bool adapter = false;
};

struct HfExportResult {
  std::string class_name;  // of transformers
  std::string checkpoint;  // that was exported
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_HF_EXPORT_H_
