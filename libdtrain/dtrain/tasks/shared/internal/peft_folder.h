// peft_folder.h - low-rank adapters as a folder that the peft library of Hugging Face loads.
// SPDX-License-Identifier: Apache-2.0
//
// PeftModel.from_pretrained(model, folder) puts them on `model`, which transformers has loaded from
// the folder that the run began with.
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_PEFT_FOLDER_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_PEFT_FOLDER_H_

#include <string>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/nn/parameter.h"

namespace dtrain::internal {

// UsageError of a model that has no adapters to export.
Status NoAdapters();

struct PeftExport {
  std::string task;          // how the name of transformers' class ends: "SequenceClassification"
  std::string base;          // where the pretrained model is
  std::string_view encoder;  // the beginning of the names of its weights
  const LowRankOptions& low_rank;
  ParameterSet& parameters;  // in host memory
};

// Writes adapter_model.safetensors (float32) with all weights that were trained, then
// adapter_config.json. UsageError: the model has no adapters, or the folder is not empty and may
// not be overwritten.
Status WritePeftFolder(const PeftExport& model, const std::string& directory, bool overwrite);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_PEFT_FOLDER_H_
