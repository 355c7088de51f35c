// weight_file.cc - detects the format at a path, and opens it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/formats/weight_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}
bool IsFolder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::string_view TextOf(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// The only .index file of a folder, or "".
StatusOr<std::string> FindTensorFlowIndex(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".index") found.push_back(it->path().string());
  }
  if (error) return FileError(folder, "read", error.value());
  std::sort(found.begin(), found.end());
  if (found.size() > 1) {
    return StorageError(absl::StrFormat("%s: holds several TensorFlow checkpoints; name one, as %s",
                                        folder, found.back()));
  }
  return found.empty() ? "" : found.front();
}

std::optional<DType> DTypeOfTensorFlow(uint64_t type) {
  switch (type) {
    case 1:
      return DType::kFloat32;
    case 2:
      return DType::kFloat64;
    case 3:
      return DType::kInt32;
    case 4:
      return DType::kUint8;
    case 9:
      return DType::kInt64;
    case 14:
      return DType::kBFloat16;
    case 19:
      return DType::kFloat16;
    default:
      return std::nullopt;
  }
}

}  // namespace

struct WeightFile::Content {
  Status OpenShards();
  Status OpenTensorFlow();
  Status OpenTorch();
  Status AddSafetensors(const std::string& file);
  Status AddTensorFlowEntry(const TensorFlowEntry& entry);

  std::string path;
  WeightFormat format = WeightFormat::kSafetensors;
  std::vector<SafetensorsFile> safetensors;
  std::vector<MappedFile> mappings;
  std::vector<WeightTensor> tensors;
};

Status WeightFile::Content::AddSafetensors(const std::string& file) {
  DT_ASSIGN_OR_RETURN(SafetensorsFile opened, SafetensorsFile::Open(file));
  safetensors.push_back(std::move(opened));
  for (const NamedTensor& tensor : safetensors.back().tensors()) tensors.push_back({tensor});
  return OkStatus();
}

Status WeightFile::Content::OpenShards() {
  DT_ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(path));
  DT_ASSIGN_OR_RETURN(const auto map, ParseShardIndex(path, json));
  std::set<std::string> files;
  for (const auto& [name, file] : map) files.insert(file);
  const std::string folder = ParentOf(path);
  for (const std::string& file : files) {
    const size_t before = tensors.size();
    DT_RETURN_IF_ERROR(AddSafetensors(absl::StrFormat("%s/%s", folder, file)));
    for (size_t i = before; i < tensors.size(); ++i) {
      const std::string& name = tensors[i].tensor.name;
      const auto found = map.find(name);
      if (found == map.end() || found->second != file) {
        return StorageError(absl::StrFormat(
            "%s: damaged: '%s' is in %s, but not according to the index", path, name, file));
      }
    }
  }
  if (tensors.size() == map.size()) return OkStatus();
  for (const auto& entry : map) {
    const bool there = std::any_of(tensors.begin(), tensors.end(), [&](const WeightTensor& t) {
      return t.tensor.name == entry.first;
    });
    if (there) continue;
    return StorageError(absl::StrFormat("%s: damaged: '%s' should be in %s, but is not", path,
                                        entry.first, entry.second));
  }
  return OkStatus();
}

Status WeightFile::Content::AddTensorFlowEntry(const TensorFlowEntry& entry) {
  const std::optional<DType> dtype = DTypeOfTensorFlow(entry.type);
  if (!dtype)
    return OkStatus();  // text and similar data, which newer TensorFlow versions
                        // add
  const std::span<const std::byte> shard = mappings[entry.shard].bytes();
  if (entry.offset > shard.size() || entry.size > shard.size() - entry.offset) {
    return StorageError(absl::StrFormat(
        "%s: damaged: '%s' takes bytes %d to %d of a data file of %d; is that file whole?", path,
        entry.name, entry.offset, entry.offset + entry.size, shard.size()));
  }
  uint64_t bytes = SizeOf(*dtype);
  for (const int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) bytes = UINT64_MAX;
  }
  if (bytes != entry.size) {
    return StorageError(absl::StrFormat("%s: damaged: '%s' %s has %d bytes", path, entry.name,
                                        FormatShape(entry.shape), entry.size));
  }
  tensors.push_back({.tensor = {.name = entry.name,
                                .dtype = *dtype,
                                .shape = entry.shape,
                                .data = shard.subspan(entry.offset, entry.size)},
                     .masked_crc32c = entry.masked_crc32c});
  return OkStatus();
}

Status WeightFile::Content::OpenTensorFlow() {
  format = WeightFormat::kTensorFlow;
  DT_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(path));
  DT_ASSIGN_OR_RETURN(TensorFlowIndex index, ParseTensorFlowIndex(path, TextOf(mapped)));
  const std::string prefix = path.substr(0, path.size() - std::string_view(".index").size());
  for (uint64_t i = 0; i < index.shards; ++i) {
    DT_ASSIGN_OR_RETURN(MappedFile shard, MappedFile::Open(absl::StrFormat(
                                              "%s.data-%05d-of-%05d", prefix, i, index.shards)));
    mappings.push_back(std::move(shard));
  }
  std::sort(index.entries.begin(), index.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.shard, a.offset, a.name) < std::tie(b.shard, b.offset, b.name);
  });
  const TensorFlowEntry* last = nullptr;
  for (const TensorFlowEntry& entry : index.entries) {
    if (entry.shard >= index.shards) {
      return StorageError(absl::StrFormat("%s: damaged: '%s' is in data file %d of %d", path,
                                          entry.name, entry.shard, index.shards));
    }
    if (last != nullptr && last->shard == entry.shard && entry.offset < last->offset + last->size) {
      return StorageError(
          absl::StrFormat("%s: damaged: '%s' and '%s' overlap", path, last->name, entry.name));
    }
    DT_RETURN_IF_ERROR(AddTensorFlowEntry(entry));
    last = &entry;
  }
  return OkStatus();
}

Status WeightFile::Content::OpenTorch() {
  format = WeightFormat::kTorch;
  DT_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  mappings.push_back(std::move(mapped));
  DT_ASSIGN_OR_RETURN(const auto entries, ParseTorchFile(path, mappings.back().bytes()));
  for (const NamedTensor& entry : entries) tensors.push_back({entry});
  return OkStatus();
}

StatusOr<std::string> FindWeightFile(const std::string& path) {
  if (!IsFolder(path)) {
    for (const std::string& file : {path, path + ".index"}) {
      if (Exists(file)) return file;
    }
    return FileError(path, "open", ::access(path.c_str(), F_OK) == 0 ? ENOENT : errno);
  }
  if (::access(path.c_str(), R_OK | X_OK) != 0) return FileError(path, "open", errno);
  for (const char* const name :
       {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"}) {
    const std::string file = path + "/" + name;
    if (Exists(file)) return file;
  }
  if (Exists(path + "/pytorch_model.bin.index.json")) {
    return StorageError(path +
                        ": holds PyTorch shards, which are not supported; save it as safetensors "
                        "(save_pretrained() of transformers does)");
  }
  DT_ASSIGN_OR_RETURN(std::string index, FindTensorFlowIndex(path));
  if (!index.empty()) return index;
  return UsageError(
      path +
      ": holds no weights: no model.safetensors, model.safetensors.index.json, pytorch_model.bin "
      "or TensorFlow checkpoint (.index); check the path");
}

StatusOr<WeightFile> WeightFile::Open(const std::string& path) {
  DT_ASSIGN_OR_RETURN(std::string file, FindWeightFile(path));
  auto content = std::make_unique<Content>();
  content->path = std::move(file);
  const std::string& found = content->path;
  if (found.ends_with(".index")) {
    DT_RETURN_IF_ERROR(content->OpenTensorFlow());
  } else if (found.ends_with(".index.json")) {
    DT_RETURN_IF_ERROR(content->OpenShards());
  } else if (found.ends_with(".bin") || found.ends_with(".pt") || found.ends_with(".pth")) {
    DT_RETURN_IF_ERROR(content->OpenTorch());
  } else if (found.ends_with(".safetensors")) {
    DT_RETURN_IF_ERROR(content->AddSafetensors(found));
  } else {
    return StorageError(found +
                        ": its name is not that of a weight file; supported are .safetensors, "
                        ".safetensors.index.json, .bin, .pt, .pth and .index");
  }
  return WeightFile(std::move(content));
}

WeightFile::WeightFile(std::unique_ptr<Content> content) : content_(std::move(content)) {}
WeightFile::WeightFile(WeightFile&&) noexcept = default;
WeightFile& WeightFile::operator=(WeightFile&&) noexcept = default;
WeightFile::~WeightFile() = default;

std::span<const WeightTensor> WeightFile::tensors() const { return content_->tensors; }
WeightFormat WeightFile::format() const { return content_->format; }
const std::string& WeightFile::path() const { return content_->path; }

}  // namespace dtrain
