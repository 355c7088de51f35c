// hf_folder.h - what all exports for Hugging Face's transformers share: a folder and its files.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_HF_FOLDER_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_HF_FOLDER_H_

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/formats/safetensors.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/ops/bias_activation.h"

namespace dtrain::internal {

// Their name of the function.
const char* HfActivationName(Activation activation);

// A view of a float32 tensor in host memory.
NamedTensor HfTensor(const std::string& name, const Tensor& tensor);
// All parameters; they must be in host memory.
std::vector<NamedTensor> HfTensors(ParameterSet& parameters);

using HfFile = std::pair<std::string, std::string>;  // name, content

inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kAdapterWeightsFile = "adapter_model.safetensors";
inline constexpr const char* kAdapterConfigFile = "adapter_config.json";

// Writes the weights and then `files` in order into `directory`, which is made; the last file
// completes it. What an earlier export of another kind left there is removed. UsageError: the
// folder is not empty and may not be overwritten, or is a checkpoint or a run, which never may.
Status WriteHfFolder(const std::string& directory, bool overwrite,
                     std::span<const NamedTensor> tensors, std::span<const HfFile> files,
                     const std::string& weights_file = kWeightsFile);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_HF_FOLDER_H_
