// checkpoint.cc - writes and verifies the files of one checkpoint.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/checkpoint.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/crc.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/internal/json_text.h"

namespace dtrain {
namespace {

constexpr char kManifest[] = "MANIFEST";
constexpr char kComplete[] = "COMPLETE";
constexpr char kFormat[] = "dtrain-checkpoint";
constexpr int kVersion = 1;
constexpr int64_t kMaxManifestBytes = 64 << 20;

std::string Hex(uint32_t crc) { return absl::StrFormat("%08x", crc); }

std::string CompleteText(std::string_view manifest) {
  return absl::StrFormat("%s crc32c %s\n", kManifest, Hex(Crc32c(manifest)));
}

// True if the name stays below the checkpoint's folder, even if the manifest is malicious.
bool IsSafeName(const std::string& name) {
  const std::filesystem::path path(name);
  if (name.empty() || path.is_absolute() || name == kManifest || name == kComplete) return false;
  for (const std::filesystem::path& part : path) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

StatusOr<nlohmann::ordered_json> WriteOne(const std::string& folder, const CheckpointFile& file) {
  const std::string path = folder + "/" + file.name;
  DT_RETURN_IF_ERROR(MakeDirectories(ParentOf(path)));
  nlohmann::ordered_json entry;
  entry["name"] = file.name;
  if (const auto* text = std::get_if<std::string>(&file.content)) {
    DT_RETURN_IF_ERROR(WriteFileAtomically(path, *text));
    entry["size"] = text->size();
    entry["crc32c"] = Hex(Crc32c(*text));
    return entry;
  }
  const auto& group = std::get<TensorGroup>(file.content);
  DT_ASSIGN_OR_RETURN(const SafetensorsSummary summary,
                      WriteSafetensors(path, group.tensors, group.metadata));
  entry["size"] = summary.size;
  entry["crc32c"] = Hex(summary.crc32c);
  nlohmann::json tensors = nlohmann::json::object();
  for (const auto& [name, crc] : summary.tensor_crc32c) tensors[name] = Hex(crc);
  entry["tensors"] = tensors;
  return entry;
}

// Throws the exceptions of nlohmann::json; `text` is hexadecimal.
uint32_t CrcOf(const nlohmann::json& text) {
  return static_cast<uint32_t>(std::stoul(text.get<std::string>(), nullptr, 16));
}

}  // namespace

StatusOr<int64_t> WriteCheckpointFiles(const std::string& path, int64_t step,
                                       std::span<const CheckpointFile> files) {
  nlohmann::ordered_json manifest;
  manifest["format"] = kFormat;
  manifest["version"] = kVersion;
  manifest["step"] = step;
  manifest["files"] = nlohmann::ordered_json::array();
  int64_t bytes = 0;
  std::set<std::string> names;
  for (const CheckpointFile& file : files) {
    DT_CHECK(IsSafeName(file.name))
        << "'" << file.name << "' cannot be the name of a checkpoint's file";
    DT_CHECK(names.insert(file.name).second) << "a checkpoint has two files '" << file.name << "'";
    DT_ASSIGN_OR_RETURN(nlohmann::ordered_json entry, WriteOne(path, file));
    bytes += entry["size"].get<int64_t>();
    manifest["files"].push_back(std::move(entry));
  }
  const std::string text = internal::JsonText(manifest, 1) + "\n";
  DT_RETURN_IF_ERROR(WriteFileAtomically(path + "/" + kManifest, text));
  DT_RETURN_IF_ERROR(WriteFileAtomically(path + "/" + kComplete, CompleteText(text)));
  return bytes + static_cast<int64_t>(text.size());
}

StatusOr<Checkpoint> Checkpoint::Open(const std::string& path,
                                      const OpenCheckpointOptions& options) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  DT_RETURN_IF_ERROR(checkpoint.ReadManifest());
  for (const auto& [name, file] : checkpoint.files_) {
    DT_RETURN_IF_ERROR(checkpoint.VerifyFile(name, file, options));
  }
  return checkpoint;
}

Status Checkpoint::ReadManifest() {
  const std::string path = path_ + "/" + kManifest;
  std::error_code error;
  if (!std::filesystem::exists(path_, error)) {
    return StorageError(path_ + ": no such checkpoint; check the path");
  }
  const bool has_manifest = std::filesystem::exists(path, error);
  if (!std::filesystem::exists(path_ + "/" + kComplete, error)) {
    return StorageError(
        path_ + (has_manifest ? ": incomplete: it has no file COMPLETE, so it was not fully written"
                              : ": not a checkpoint: it has no files MANIFEST and COMPLETE"));
  }
  DT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxManifestBytes));
  DT_ASSIGN_OR_RETURN(const std::string complete,
                      ReadWholeFile(path_ + "/" + kComplete, kMaxManifestBytes));
  if (complete != CompleteText(text)) {
    return StorageError(path + ": damaged: its checksum is not the one in COMPLETE");
  }
  try {
    const nlohmann::json manifest = internal::ParseJsonOrThrow<nlohmann::json>(text);
    const auto format = manifest.at("format").get<std::string>();
    const int version = manifest.at("version").get<int>();
    if (format != kFormat || version != kVersion) {
      return StorageError(
          absl::StrFormat("%s: format '%s' version %d; this program reads '%s' version %d", path,
                          format, version, kFormat, kVersion));
    }
    step_ = manifest.at("step").get<int64_t>();
    for (const nlohmann::json& entry : manifest.at("files")) {
      const auto name = entry.at("name").get<std::string>();
      if (!IsSafeName(name)) {
        return StorageError(
            absl::StrFormat("%s: '%s' cannot be the name of a checkpoint's file", path, name));
      }
      File& file = files_[name];
      file.size = entry.at("size").get<int64_t>();
      file.crc32c = CrcOf(entry.at("crc32c"));
      const nlohmann::json tensors = entry.value("tensors", nlohmann::json::object());
      for (const auto& [tensor, crc] : tensors.items()) file.tensor_crc32c[tensor] = CrcOf(crc);
    }
  } catch (const std::exception& damage) {
    return StorageError(absl::StrFormat("%s: damaged: %s", path, damage.what()));
  }
  return OkStatus();
}

Status Checkpoint::VerifyFile(const std::string& name, const File& file,
                              const OpenCheckpointOptions& options) const {
  const std::string path = path_ + "/" + name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return StorageError(path + ": missing, although the checkpoint's MANIFEST lists it");
  }
  DT_ASSIGN_OR_RETURN(const MappedFile mapping, MappedFile::Open(path));
  const auto size = static_cast<int64_t>(mapping.bytes().size());
  if (size != file.size) {
    return StorageError(
        absl::StrFormat("%s: damaged: %d bytes instead of %d", path, size, file.size));
  }
  if (!options.verify_contents || Crc32c(mapping.bytes()) == file.crc32c) return OkStatus();
  return DescribeDamage(name, file);
}

Status Checkpoint::DescribeDamage(const std::string& name, const File& file) const {
  const std::string path = path_ + "/" + name;
  if (!file.tensor_crc32c.empty()) {
    DT_ASSIGN_OR_RETURN(const SafetensorsFile tensors, SafetensorsFile::Open(path));
    for (const auto& [tensor_name, crc] : file.tensor_crc32c) {
      const NamedTensor* const tensor = tensors.Find(tensor_name);
      if (tensor != nullptr && Crc32c(tensor->data) == crc) continue;
      return StorageError(
          absl::StrFormat("%s: damaged: tensor '%s' has a wrong checksum", path, tensor_name));
    }
  }
  return StorageError(path + ": damaged: it has a wrong checksum");
}

std::vector<std::string> Checkpoint::FileNames() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : files_) names.push_back(name);
  return names;
}

StatusOr<std::string> Checkpoint::PathOf(std::string_view name) const {
  if (!Has(name)) {
    return StorageError(
        absl::StrFormat("%s: the checkpoint has no file '%s'", path_, ToAbsl(name)));
  }
  return path_ + "/" + std::string(name);
}

StatusOr<SafetensorsFile> Checkpoint::OpenTensors(std::string_view name) const {
  DT_ASSIGN_OR_RETURN(const std::string path, PathOf(name));
  return SafetensorsFile::Open(path);
}

StatusOr<std::string> Checkpoint::ReadText(std::string_view name) const {
  DT_ASSIGN_OR_RETURN(const std::string path, PathOf(name));
  return ReadWholeFile(path);
}

}  // namespace dtrain
