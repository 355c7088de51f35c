// safetensors.cc - writes and checks safetensors files.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/crc.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/formats/internal/fetched_file.h"
#include "dtrain/formats/internal/json_object.h"

namespace dtrain {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kMaxRank = 64;
constexpr char kMetadata[] = "__metadata__";

std::string_view DtypeCode(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return "F64";
    case DType::kFloat32:
      return "F32";
    case DType::kFloat16:
      return "F16";
    case DType::kBFloat16:
      return "BF16";
    case DType::kInt64:
      return "I64";
    case DType::kInt32:
      return "I32";
    case DType::kUint8:
      return "U8";
  }
  return "?";
}

std::optional<DType> DtypeOfCode(std::string_view code) {
  if (code == "BOOL") return DType::kUint8;
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16,
                            DType::kInt64, DType::kInt32, DType::kUint8}) {
    if (DtypeCode(dtype) == code) return dtype;
  }
  return std::nullopt;
}

// Size of a tensor in bytes; nullopt for a negative extent or an overflow.
std::optional<uint64_t> TensorBytes(std::span<const int64_t> shape, DType dtype) {
  uint64_t bytes = SizeOf(dtype);
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

struct Placed {
  uint64_t begin = 0;
  uint64_t end = 0;
  NamedTensor tensor;
};

// Parses one entry of the header; its data is set later.
StatusOr<Placed> ParseEntry(const std::string& path, const std::string& name,
                            const nlohmann::json& entry) {
  const auto damaged = [&](std::string_view what) {
    return StorageError(absl::StrFormat("%s: damaged: tensor '%s': %s", path, name, ToAbsl(what)));
  };
  if (!entry.is_object()) return damaged("its description is not an object");
  const auto dtype = entry.find("dtype");
  const auto shape = entry.find("shape");
  const auto offsets = entry.find("data_offsets");
  if (dtype == entry.end() || !dtype->is_string()) return damaged("no dtype");
  if (shape == entry.end() || !shape->is_array()) return damaged("no shape");
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
    return damaged("data_offsets are not two positions");
  }
  Placed placed;
  placed.tensor.name = name;
  const auto code = dtype->get<std::string>();
  const auto known = DtypeOfCode(code);
  if (!known) {
    return StorageError(absl::StrFormat(
        "%s: tensor '%s' has dtype %s; convert it to F32, F16, BF16, F64, I64, I32, U8 or BOOL",
        path, name, internal::Excerpt(code)));
  }
  placed.tensor.dtype = *known;
  if (shape->size() > kMaxRank) {
    return damaged(absl::StrFormat("its shape has %d extents", shape->size()));
  }
  for (const nlohmann::json& extent : *shape) {
    if (!extent.is_number_unsigned() || extent.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      return damaged("its shape is not a list of sizes");
    }
    placed.tensor.shape.push_back(extent.get<int64_t>());
  }
  placed.begin = (*offsets)[0].get<uint64_t>();
  placed.end = (*offsets)[1].get<uint64_t>();
  const auto bytes = TensorBytes(placed.tensor.shape, placed.tensor.dtype);
  if (!bytes || placed.end < placed.begin || placed.end - placed.begin != *bytes) {
    return damaged(absl::StrFormat("data_offsets %d to %d do not fit %s %s", placed.begin,
                                   placed.end, code, FormatShape(placed.tensor.shape)));
  }
  return placed;
}

Status ReadMetadata(const std::string& path, const nlohmann::json& entry,
                    std::map<std::string, std::string>& metadata) {
  if (!entry.is_object()) return StorageError(path + ": damaged: __metadata__ is not an object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) {
      return StorageError(absl::StrFormat("%s: damaged: __metadata__ '%s' is not a string", path,
                                          internal::Excerpt(key)));
    }
    metadata[key] = value.get<std::string>();
  }
  return OkStatus();
}

// Sorts `placed`, checks that the tensors cover `buffer`, and points each to its bytes.
Status PlaceTensors(const std::string& path, std::span<const std::byte> buffer,
                    std::vector<Placed>& placed) {
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  uint64_t position = 0;
  for (Placed& item : placed) {
    if (item.begin != position) {
      return StorageError(absl::StrFormat(
          "%s: damaged: tensor '%s' starts at byte %d, %s byte %d", path, item.tensor.name,
          item.begin,
          item.begin < position ? "before the end of the one before it at" : "leaving a hole from",
          position));
    }
    if (item.end > buffer.size()) {
      return StorageError(
          absl::StrFormat("%s: damaged: the file is truncated: tensor '%s' ends at byte %d of %d",
                          path, item.tensor.name, item.end, buffer.size()));
    }
    item.tensor.data = buffer.subspan(item.begin, item.end - item.begin);
    position = item.end;
  }
  if (position != buffer.size()) {
    return StorageError(absl::StrFormat("%s: damaged: %d bytes follow the last tensor", path,
                                        buffer.size() - position));
  }
  return OkStatus();
}

// Pointers to the tensors in the order of the file.
std::vector<const NamedTensor*> FileOrder(std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> order;
  std::set<std::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    DT_CHECK(!tensor.name.empty() && tensor.name != kMetadata) << "a tensor needs a name";
    DT_CHECK(names.insert(tensor.name).second) << "two tensors are named " << tensor.name;
    const auto bytes = TensorBytes(tensor.shape, tensor.dtype);
    DT_CHECK(bytes.has_value()) << tensor.name;
    DT_CHECK(tensor.fetch || tensor.data.size() == *bytes)
        << tensor.name << ": " << tensor.data.size() << " bytes of " << *bytes;
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const size_t size_a = SizeOf(a->dtype);
    const size_t size_b = SizeOf(b->dtype);
    return size_a != size_b ? size_a > size_b : a->name < b->name;
  });
  return order;
}

std::string MakeHeader(std::span<const NamedTensor* const> order,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  header[kMetadata] = metadata;
  header[kMetadata]["format"] = "pt";
  // ordered_json searches names linearly, so entries are appended to the underlying vector.
  auto& entries = header.get_ref<nlohmann::ordered_json::object_t&>();
  uint64_t position = 0;
  for (const NamedTensor* tensor : order) {
    const uint64_t end = position + static_cast<uint64_t>(tensor->bytes());
    nlohmann::ordered_json entry;
    entry["dtype"] = std::string(DtypeCode(tensor->dtype));
    entry["shape"] = tensor->shape;
    entry["data_offsets"] = {position, end};
    static_cast<std::vector<std::pair<const std::string, nlohmann::ordered_json>>&>(entries)
        .emplace_back(tensor->name, std::move(entry));
    position = end;
  }
  std::string text = internal::JsonText(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

int64_t NamedTensor::bytes() const {
  return static_cast<int64_t>(TensorBytes(shape, dtype).value_or(0));
}

std::string FormatShape(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t extent : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

StatusOr<SafetensorsSummary> WriteSafetensors(const std::string& path,
                                              std::span<const NamedTensor> tensors,
                                              const std::map<std::string, std::string>& metadata) {
  const std::vector<const NamedTensor*> order = FileOrder(tensors);
  const std::string header = MakeHeader(order, metadata);
  DT_CHECK_LE(header.size(), kMaxHeader);
  DT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  const uint64_t length = header.size();
  DT_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(&length, 1))));
  DT_RETURN_IF_ERROR(file.Write(header));
  SafetensorsSummary summary;
  for (const NamedTensor* tensor : order) {
    const std::span<const std::byte> data = tensor->fetch ? tensor->fetch() : tensor->data;
    DT_RETURN_IF_ERROR(file.Write(data));
    summary.tensor_crc32c[tensor->name] = Crc32c(data);
  }
  summary.size = file.size();
  summary.crc32c = file.crc32c();
  DT_RETURN_IF_ERROR(file.Commit());
  return summary;
}

struct SafetensorsFile::Content {
  std::string path;
  MappedFile mapping;
  std::vector<NamedTensor> tensors;
  std::map<std::string, size_t, std::less<>> index;
  std::map<std::string, std::string> metadata;
};

SafetensorsFile::SafetensorsFile(std::unique_ptr<Content> content) : content_(std::move(content)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  DT_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::Open(path));
  const std::span<const std::byte> bytes = mapping.bytes();
  DT_RETURN_IF_ERROR(internal::CheckFetched(path, bytes));
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) {
    return StorageError(absl::StrFormat("%s: damaged: %d bytes are too few for a safetensors file",
                                        path, bytes.size()));
  }
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kMaxHeader || length > bytes.size() - sizeof(length)) {
    return StorageError(absl::StrFormat(
        "%s: damaged or not a safetensors file: a header of %d bytes in a file of %d", path, length,
        bytes.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof(length), length);
  DT_ASSIGN_OR_RETURN(const nlohmann::json header,
                      internal::ParseJsonObject(path, "the header", text));

  auto content = std::make_unique<Content>(Content{path, std::move(mapping), {}, {}, {}});
  std::vector<Placed> placed;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      DT_RETURN_IF_ERROR(ReadMetadata(path, entry, content->metadata));
      continue;
    }
    if (name.size() > internal::kLongestTensorName) {
      return StorageError(absl::StrFormat("%s: damaged: a tensor's name has %d characters: '%s'",
                                          path, name.size(), internal::Excerpt(name)));
    }
    DT_ASSIGN_OR_RETURN(Placed item, ParseEntry(path, name, entry));
    placed.push_back(std::move(item));
  }
  DT_RETURN_IF_ERROR(PlaceTensors(path, bytes.subspan(sizeof(length) + length), placed));
  for (Placed& item : placed) {
    content->index[item.tensor.name] = content->tensors.size();
    content->tensors.push_back(std::move(item.tensor));
  }
  return SafetensorsFile(std::move(content));
}

std::span<const NamedTensor> SafetensorsFile::tensors() const { return content_->tensors; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return content_->metadata;
}
const std::string& SafetensorsFile::path() const { return content_->path; }

const NamedTensor* SafetensorsFile::Find(std::string_view name) const {
  const auto found = content_->index.find(name);
  return found == content_->index.end() ? nullptr : &content_->tensors[found->second];
}

StatusOr<const NamedTensor*> SafetensorsFile::Get(std::string_view name, DType dtype,
                                                  std::span<const int64_t> shape) const {
  const NamedTensor* const tensor = Find(name);
  if (tensor == nullptr) {
    return StorageError(absl::StrFormat("%s: no tensor '%s'; it belongs to another model",
                                        content_->path, ToAbsl(name)));
  }
  if (tensor->dtype != dtype ||
      !std::equal(tensor->shape.begin(), tensor->shape.end(), shape.begin(), shape.end())) {
    return StorageError(absl::StrFormat(
        "%s: tensor '%s' is %s %s, but the model needs %s %s; use the configuration it was "
        "trained with",
        content_->path, ToAbsl(name), ToAbsl(Name(tensor->dtype)), FormatShape(tensor->shape),
        ToAbsl(Name(dtype)), FormatShape(shape)));
  }
  return tensor;
}

}  // namespace dtrain
