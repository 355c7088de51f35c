// torch_file.cc - finds the tensors of a state_dict in the zip file that torch.save() writes.
// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/formats/internal/fetched_file.h"
#include "dtrain/formats/internal/json_object.h"
#include "dtrain/formats/internal/pickle.h"
#include "dtrain/formats/internal/wire_reader.h"
#include "dtrain/formats/weight_file.h"

namespace dtrain {
namespace {

using internal::Pickle;
using internal::PicklePointer;
using internal::PickleValue;
using internal::TakeBytes;
using internal::TakeFixed;
using Kind = PickleValue::Kind;

// A whole model has a state_dict(), but loading it needs its classes.
constexpr char kConvert[] =
    "; convert it: python -c \"import torch, safetensors.torch as s; t = torch.load('%s', "
    "map_location='cpu', weights_only=%s); t = t.state_dict() if hasattr(t, 'state_dict') else t; "
    "s.save_file({k: v.contiguous().clone() for k, v in t.items() if hasattr(v, 'contiguous')}, "
    "'model.safetensors')\"%s";

Status Refused(const std::string& path, std::string_view why, bool has_classes = false) {
  return StorageError(absl::StrCat(
      path, ": ", ToAbsl(why),
      absl::StrFormat(kConvert, path, has_classes ? "False" : "True",
                      has_classes ? ", which runs code from the file: do so only if "
                                    "you trust it, on a machine that can import its classes"
                                  : "")));
}

// ---- zip (PKWARE's APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16) ------------------------------

constexpr uint32_t kEndOfDirectory = 0x06054b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr size_t kEndSize = 22;
constexpr size_t kLongestComment = 0xffff;

struct ZipMember {
  uint32_t crc32 = 0;
  bool is_compressed = false;  // also true for a member without data; torch never writes either
  std::string_view data;
};

class ZipReader {
 public:
  ZipReader(const std::string& path, std::string_view bytes) : path_(path), bytes_(bytes) {}

  // Members by their names without the first folder, which torch names after the file.
  StatusOr<std::map<std::string, ZipMember>> Read() const {
    size_t end = std::string_view::npos;
    if (bytes_.size() >= kEndSize) {
      end = bytes_.rfind(std::string_view("PK\5\6", 4), bytes_.size() - kEndSize);
    }
    if (end == std::string_view::npos || bytes_.size() - end > kEndSize + kLongestComment) {
      if (bytes_.starts_with("PK")) return Damaged("the end of the zip file is missing");
      return Refused(path_, "not a zip file as torch.save() writes since version 1.6");
    }
    std::string_view record = bytes_.substr(end + 10);
    uint16_t count = 0;
    uint32_t size = 0;
    uint32_t offset = 0;
    TakeFixed(record, count);
    TakeFixed(record, size);
    TakeFixed(record, offset);
    if (count == 0xffff || offset == 0xffffffff) return Refused(path_, "is a zip file in ZIP64");
    if (offset > end || size > end - offset) return Damaged("its directory lies outside of it");
    std::string_view directory = bytes_.substr(offset, size);
    std::map<std::string, ZipMember> members;
    for (int i = 0; i < count; ++i) {
      std::string name;
      ZipMember member;
      if (!TakeEntry(directory, name, member)) {
        return Damaged(absl::StrFormat("entry %d of its directory", i));
      }
      if (member.is_compressed) return Refused(path_, "its members are compressed");
      if (!members.emplace(name, member).second) {
        return Damaged(absl::StrFormat("it holds '%s' twice", name));
      }
    }
    return members;
  }

 private:
  Status Damaged(std::string_view what) const {
    return StorageError(absl::StrFormat("%s: damaged: %s; fetch it again", path_, ToAbsl(what)));
  }

  // Returns false if the entry is damaged.
  bool TakeEntry(std::string_view& directory, std::string& name, ZipMember& member) const {
    struct [[gnu::packed]] Entry {
      uint32_t signature;
      uint16_t version_made, version_needed, flags, method, time, date;
      uint32_t crc32, compressed, size;
      uint16_t name, extra, comment, disk, internal;
      uint32_t external, offset;
    };
    Entry entry;
    std::string_view text;
    std::string_view unused;
    if (!TakeFixed(directory, entry) || entry.signature != kDirectoryEntry ||
        !TakeBytes(directory, entry.name, text) ||
        !TakeBytes(directory, uint64_t{entry.extra} + entry.comment, unused)) {
      return false;
    }
    member.is_compressed = entry.method != 0;
    if (member.is_compressed) return true;
    if (entry.compressed != entry.size) return false;
    name = text.substr(std::min(text.size(), text.find('/') + 1));
    member.crc32 = entry.crc32;
    std::string_view local = bytes_.substr(std::min<size_t>(entry.offset, bytes_.size()));
    uint32_t signature = 0;
    uint16_t name_size = 0;
    uint16_t extra_size = 0;
    return TakeFixed(local, signature) && signature == kLocalHeader &&
           TakeBytes(local, 22, unused) && TakeFixed(local, name_size) &&
           TakeFixed(local, extra_size) &&
           TakeBytes(local, uint64_t{name_size} + extra_size, unused) &&
           TakeBytes(local, entry.size, member.data);
  }

  const std::string& path_;
  std::string_view bytes_;
};

// ---- the state_dict -----------------------------------------------------------------------------

// Types that weights do not have, such as those of counters and tables.
bool IsPassedOver(std::string_view storage) {
  return storage == "torch.CharStorage" || storage == "torch.ShortStorage" ||
         storage == "torch.ComplexFloatStorage" || storage == "torch.ComplexDoubleStorage";
}

std::optional<DType> DTypeOfStorage(std::string_view name) {
  const std::pair<std::string_view, DType> types[] = {
      {"torch.FloatStorage", DType::kFloat32},     {"torch.HalfStorage", DType::kFloat16},
      {"torch.BFloat16Storage", DType::kBFloat16}, {"torch.DoubleStorage", DType::kFloat64},
      {"torch.LongStorage", DType::kInt64},        {"torch.IntStorage", DType::kInt32},
      {"torch.ByteStorage", DType::kUint8},        {"torch.BoolStorage", DType::kUint8}};
  for (const auto& [known, dtype] : types) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

// The arguments of a call of `name`, if it has at least `count` of them; otherwise null.
const std::vector<PicklePointer>* ArgumentsOf(const PickleValue& value, std::string_view name,
                                              size_t count) {
  if (value.kind != Kind::kCall || value.text != name) return nullptr;
  const std::vector<PicklePointer>& arguments = value.items.front()->items;
  return arguments.size() >= count ? &arguments : nullptr;
}

// Reads the non-negative numbers of a tuple.
bool Sizes(const PickleValue& tuple, std::vector<int64_t>& sizes) {
  if (tuple.kind != Kind::kList) return false;
  for (const PicklePointer& item : tuple.items) {
    if (item->kind != Kind::kInteger || item->integer < 0) return false;
    sizes.push_back(item->integer);
  }
  return true;
}

class StateDictReader {
 public:
  StateDictReader(const std::string& path, const std::map<std::string, ZipMember>& members)
      : path_(path), members_(members) {}

  StatusOr<std::vector<NamedTensor>> Read(const PickleValue& root) {
    const PickleValue* dictionary = &root;
    // Training scripts often store {"model": ..., "optimizer": ...}.
    for (const auto& [key, value] : root.pairs) {
      for (const char* const name : {"model", "state_dict", "model_state_dict", "module"}) {
        if (key->text == name && value->kind == Kind::kDictionary) dictionary = value.get();
      }
    }
    if (dictionary->kind != Kind::kDictionary) return Refused(path_, "holds no dictionary");
    std::vector<NamedTensor> entries;
    std::set<std::string_view> names;
    for (const auto& [key, value] : dictionary->pairs) {
      if (key->kind != Kind::kText) return Refused(path_, "holds names that are not text");
      if (key->text.size() > internal::kLongestTensorName) {
        return StorageError(absl::StrFormat("%s: damaged: a tensor's name has %d characters: '%s'",
                                            path_, key->text.size(), internal::Excerpt(key->text)));
      }
      if (!names.insert(key->text).second) {
        return StorageError(absl::StrFormat("%s: damaged: it names '%s' twice", path_, key->text));
      }
      NamedTensor entry;
      entry.name = key->text;
      DT_ASSIGN_OR_RETURN(const bool is_taken, ReadTensor(*value, entry));
      if (is_taken) entries.push_back(std::move(entry));
    }
    return entries;
  }

 private:
  // Parses _rebuild_tensor_v2(storage, offset, size, stride, ...) or _rebuild_parameter(tensor,
  // ...). Returns false for a tensor to skip.
  StatusOr<bool> ReadTensor(const PickleValue& value, NamedTensor& entry) {
    constexpr char kTensor[] = "torch._utils._rebuild_tensor_v2";
    const auto* arguments = ArgumentsOf(value, kTensor, 4);
    if (const auto* wrapped = ArgumentsOf(value, "torch._utils._rebuild_parameter", 1)) {
      arguments = ArgumentsOf(*wrapped->front(), kTensor, 4);
    }
    std::vector<int64_t> strides;
    if (arguments == nullptr || (*arguments)[0]->kind != Kind::kPersistent ||
        (*arguments)[1]->kind != Kind::kInteger || !Sizes(*(*arguments)[2], entry.shape) ||
        !Sizes(*(*arguments)[3], strides) || strides.size() != entry.shape.size()) {
      return Refused(path_, absl::StrFormat("'%s' is not a plain tensor%s", entry.name,
                                            value.kind == Kind::kCall ? " but " + value.text : ""));
    }
    const bool is_empty = std::count(entry.shape.begin(), entry.shape.end(), 0) > 0;
    uint64_t elements = is_empty ? 0 : 1;
    // The strides of an empty tensor are meaningless.
    for (size_t i = is_empty ? 0 : strides.size(); i-- > 0;) {
      const auto extent = static_cast<uint64_t>(entry.shape[i]);
      if (extent > 1 && static_cast<uint64_t>(strides[i]) != elements) {
        return Refused(path_, absl::StrFormat("'%s' is not stored in C order", entry.name));
      }
      if (__builtin_mul_overflow(elements, extent, &elements)) return Outside(entry);
    }
    return Place(*(*arguments)[0]->items[0], (*arguments)[1]->integer, elements, entry);
  }

  // `id` is ("storage", type, name of the member, device, elements).
  StatusOr<bool> Place(const PickleValue& id, int64_t offset, uint64_t elements,
                       NamedTensor& entry) {
    if (id.items.size() < 3 || id.items[0]->text != "storage") {
      return Refused(path_, absl::StrFormat("'%s' has no storage", entry.name));
    }
    if (IsPassedOver(id.items[1]->text)) return false;
    const std::optional<DType> dtype = DTypeOfStorage(id.items[1]->text);
    if (!dtype) {
      return Refused(path_,
                     absl::StrFormat("'%s' is stored as a %s", entry.name, id.items[1]->text));
    }
    entry.dtype = *dtype;
    const auto found = members_.find("data/" + id.items[2]->text);
    if (found == members_.end()) return Outside(entry);
    const ZipMember& storage = found->second;
    DT_RETURN_IF_ERROR(Verify(found->first, storage));
    const size_t size = SizeOf(entry.dtype);
    const size_t available = storage.data.size() / size;
    if (offset < 0 || static_cast<uint64_t>(offset) > available ||
        elements > available - static_cast<uint64_t>(offset)) {
      return Outside(entry);
    }
    entry.data = std::as_bytes(std::span(storage.data))
                     .subspan(static_cast<size_t>(offset) * size, elements * size);
    return true;
  }

  Status Verify(const std::string& name, const ZipMember& member) {
    if (!verified_.insert(name).second) return OkStatus();
    const uLong crc =
        crc32_z(0, reinterpret_cast<const Bytef*>(member.data.data()), member.data.size());
    if (crc == member.crc32) return OkStatus();
    return StorageError(absl::StrFormat("%s: damaged: %s fails its CRC32", path_, name));
  }

  Status Outside(const NamedTensor& entry) const {
    return StorageError(absl::StrFormat("%s: damaged: '%s' %s lies beyond the end of its storage",
                                        path_, entry.name, FormatShape(entry.shape)));
  }

  const std::string& path_;
  const std::map<std::string, ZipMember>& members_;
  std::set<std::string> verified_;
};

}  // namespace

StatusOr<std::vector<NamedTensor>> ParseTorchFile(const std::string& path,
                                                  std::span<const std::byte> bytes) {
  DT_RETURN_IF_ERROR(internal::CheckFetched(path, bytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  DT_ASSIGN_OR_RETURN(const auto members, ZipReader(path, text).Read());
  const auto pickled = members.find("data.pkl");
  if (pickled == members.end()) return Refused(path, "holds no data.pkl");
  const auto order = members.find("byteorder");
  if (order != members.end() && order->second.data != "little") {
    return Refused(path, "written on a big-endian machine");
  }
  StatusOr<Pickle> pickle = Pickle::Parse(path, pickled->second.data);
  if (!pickle.ok()) {
    return Refused(path, pickle.status().message().substr(path.size() + 2), /*has_classes=*/true);
  }
  return StateDictReader(path, members).Read(pickle->root());
}

}  // namespace dtrain
