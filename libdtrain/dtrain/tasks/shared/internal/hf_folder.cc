// hf_folder.cc - refuses folders in use, and writes the rest.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/hf_folder.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/status.h"
#include "dtrain/nn/frozen_parameters.h"
#include "dtrain/runs/output_folder.h"
#include "nlohmann/json.hpp"

namespace dtrain::internal {
namespace {

// All that exports of whole models write, of any kind: what the folder of one kind holds of another
// would be read as its own.
constexpr const char* kExported[] = {
    "added_tokens.json", "config.json",    "generation_config.json",  "merges.txt",
    kWeightsFile,        "source.spm",     "special_tokens_map.json", "target.spm",
    "target_vocab.json", "tokenizer.json", "tokenizer_config.json",   "vocab.json",
    "vocab.txt"};

// Files of these names in any other folder are somebody's own.
bool IsExport(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::path(directory) / kWeightsFile, error))
    return false;
  const StatusOr<std::string> text = ReadWholeFile(directory + "/config.json");
  if (!text.ok()) return false;
  const auto json = internal::ParseJson<nlohmann::json>(*text);
  return json.is_object() && (json.contains("architectures") || json.contains("model_type"));
}

Status RemoveFile(const std::string& directory, const std::string& name) {
  std::error_code error;
  std::filesystem::remove(std::filesystem::path(directory) / name, error);
  if (!error) return OkStatus();
  return StorageError(absl::StrFormat("%s/%s: cannot delete what an earlier export wrote: %s",
                                      directory, name, error.message()));
}

Status RemoveEarlierExport(const std::string& directory, const std::string& weights_file,
                           std::span<const HfFile> files) {
  for (const char* const name : {kAdapterConfigFile, kAdapterWeightsFile}) {
    if (weights_file != kAdapterWeightsFile) DT_RETURN_IF_ERROR(RemoveFile(directory, name));
  }
  if (IsExport(directory)) {
    for (const std::string name : kExported) {
      const auto replaces = [&](const HfFile& file) { return file.first == name; };
      if (name == weights_file || std::ranges::any_of(files, replaces)) continue;
      DT_RETURN_IF_ERROR(RemoveFile(directory, name));
    }
  }
  // Until its new last file is there, the folder is not whole.
  return RemoveFile(directory, files.back().first);
}

Status PrepareFolder(const std::string& directory, bool overwrite) {
  std::error_code error;
  if (std::filesystem::exists(directory, error) &&
      !std::filesystem::is_directory(directory, error)) {
    return UsageError(directory + ": is not a folder; name another output folder");
  }
  if (!overwrite && std::filesystem::exists(directory, error) &&
      !std::filesystem::is_empty(directory, error)) {
    return UsageError(directory +
                      ": is not empty; name another output folder, or give --overwrite");
  }
  return MakeDirectories(directory);
}

}  // namespace

const char* HfActivationName(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return "relu";
    case Activation::kGeluErf:
      return "gelu";
    case Activation::kSwish:
      return "swish";
    default:
      return "gelu_pytorch_tanh";
  }
}

NamedTensor HfTensor(const std::string& name, const Tensor& tensor) {
  const std::span<const int64_t> dims = tensor.shape().dims();
  return {.name = name,
          .dtype = DType::kFloat32,
          .shape = {dims.begin(), dims.end()},
          .data = {static_cast<const std::byte*>(tensor.raw()), tensor.bytes()}};
}

std::vector<NamedTensor> HfTensors(ParameterSet& parameters) {
  std::vector<NamedTensor> tensors;
  DT_CHECK(parameters.compute_type() == DType::kFloat32);
  for (const Parameter* parameter : parameters.all()) {
    if (FrozenOf(parameters).IsFactor(*parameter)) continue;
    tensors.push_back(HfTensor(parameter->name(), parameter->value()));
  }
  return tensors;
}

Status WriteHfFolder(const std::string& directory, bool overwrite,
                     std::span<const NamedTensor> tensors, std::span<const HfFile> files,
                     const std::string& weights_file) {
  DT_RETURN_IF_ERROR(CheckIsNoCheckpoint(directory));
  DT_RETURN_IF_ERROR(PrepareFolder(directory, overwrite));
  DT_RETURN_IF_ERROR(RemoveEarlierExport(directory, weights_file, files));
  DT_RETURN_IF_ERROR(
      WriteSafetensors(absl::StrFormat("%s/%s", directory, weights_file), tensors).status());
  for (const auto& [name, content] : files) {
    DT_RETURN_IF_ERROR(WriteFileAtomically(absl::StrFormat("%s/%s", directory, name), content));
  }
  return OkStatus();
}

}  // namespace dtrain::internal
