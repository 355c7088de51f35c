// tensorflow_index.cc - reads the LevelDB table that lists a TensorFlow checkpoint's tensors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "absl/strings/str_format.h"
#include "dtrain/base/crc.h"
#include "dtrain/formats/internal/wire_reader.h"
#include "dtrain/formats/weight_file.h"

namespace dtrain {
namespace {

using internal::TakeBytes;
using internal::TakeFixed;
using internal::TakeVarint;
using internal::WireReader;

constexpr uint64_t kMagic = 0xdb4775248b80fb57u;
constexpr size_t kFooter = 48;       // two block handles, padding, magic
constexpr size_t kBlockTrailer = 5;  // compression, masked CRC32C of contents and compression
constexpr size_t kMaxName = 4096;    // keys share prefixes with earlier keys, so this limits the
                                     // memory
constexpr size_t kMaxIndexRank = 64;

class TableReader {
 public:
  TableReader(const std::string& path, std::string_view bytes) : path_(path), bytes_(bytes) {}

  using Visitor = std::function<Status(std::string_view key, std::string_view value)>;

  // Calls `visit` for each entry of the table, in the order of keys.
  Status Read(const Visitor& visit) const {
    if (bytes_.size() < kFooter) return Damaged("%d bytes are too few for an index", bytes_.size());
    std::string_view footer = bytes_.substr(bytes_.size() - kFooter);
    std::string_view end = footer.substr(kFooter - sizeof(kMagic));
    uint64_t magic = 0;
    TakeFixed(end, magic);
    if (magic != kMagic) {
      return StorageError(path_ +
                          ": damaged or not the index of a TensorFlow checkpoint: it does not end "
                          "as a table does");
    }
    std::string_view unused;
    std::string_view index;
    if (!TakeHandle(footer, unused) || !TakeHandle(footer, index)) {
      return Damaged("a block is beyond the end of the %d bytes", bytes_.size());
    }
    return ReadBlock(index, [&](std::string_view /*key*/, std::string_view value) {
      std::string_view block;
      if (!TakeHandle(value, block)) {
        return Damaged("a block is beyond the end of the %d bytes", bytes_.size());
      }
      return ReadBlock(block, visit);
    });
  }

  template <typename... Args>
  Status Damaged(const absl::FormatSpec<Args...>& format, const Args&... args) const {
    return StorageError(path_ + ": damaged: " + absl::StrFormat(format, args...));
  }

 private:
  // Reads the handle of a block and returns the block with its trailer.
  bool TakeHandle(std::string_view& from, std::string_view& block) const {
    uint64_t offset = 0;
    uint64_t size = 0;
    if (!TakeVarint(from, offset) || !TakeVarint(from, size)) return false;
    if (offset > bytes_.size() || size > bytes_.size() - offset ||
        bytes_.size() - offset - size < kBlockTrailer) {
      return false;
    }
    block = bytes_.substr(offset, size + kBlockTrailer);
    return true;
  }

  Status ReadBlock(std::string_view block, const Visitor& visit) const {
    const auto at = static_cast<int64_t>(block.data() - bytes_.data());
    const std::string_view checked = block.substr(0, block.size() - sizeof(uint32_t));
    std::string_view trailer = block.substr(checked.size());
    uint32_t crc = 0;
    TakeFixed(trailer, crc);
    if (crc != MaskedCrc32c(checked)) return Damaged("the block at byte %d fails its CRC32C", at);
    if (checked.back() != 0) {
      return StorageError(absl::StrFormat(
          "%s: its blocks are compressed, which no TensorFlow release writes", path_));
    }
    std::string_view entries = checked.substr(0, checked.size() - 1);
    if (!DropRestarts(entries)) return Damaged("the block at byte %d has no restart points", at);
    std::string key;
    while (!entries.empty()) {
      uint64_t shared = 0;
      uint64_t added = 0;
      uint64_t value_size = 0;
      std::string_view rest;
      std::string_view value;
      if (!TakeVarint(entries, shared) || !TakeVarint(entries, added) ||
          !TakeVarint(entries, value_size) || !TakeBytes(entries, added, rest) ||
          !TakeBytes(entries, value_size, value) || shared > key.size() ||
          shared + added > kMaxName) {
        return Damaged("an entry of the block at byte %d does not fit into it", at);
      }
      key.resize(shared);
      key.append(rest);
      DT_RETURN_IF_ERROR(visit(key, value));
    }
    return OkStatus();
  }

  // Removes the restart points after the entries, which only help searching.
  static bool DropRestarts(std::string_view& entries) {
    uint32_t restarts = 0;
    if (entries.size() < sizeof(restarts)) return false;
    std::string_view count = entries.substr(entries.size() - sizeof(restarts));
    TakeFixed(count, restarts);
    const uint64_t bytes = (uint64_t{restarts} + 1) * sizeof(uint32_t);
    if (bytes > entries.size()) return false;
    entries.remove_suffix(bytes);
    return true;
  }

  const std::string& path_;
  std::string_view bytes_;
};

// BundleHeaderProto: num_shards = 1, endianness = 2 (LITTLE = 0).
Status ParseHeader(const TableReader& table, const std::string& path, std::string_view value,
                   TensorFlowIndex& index) {
  WireReader header(value);
  while (header.Next()) {
    if (header.number() == 1) index.shards = header.value();
    if (header.number() == 2 && header.value() != 0) {
      return StorageError(path + ": written on a big-endian machine; convert it there");
    }
  }
  // File names have five digits for the shard.
  if (header.failed() || index.shards < 1 || index.shards > 99999) {
    return table.Damaged("its header is not one of a checkpoint");
  }
  return OkStatus();
}

// TensorShapeProto: dim = 2 { size = 1 }.
bool ParseShape(std::string_view message, std::vector<int64_t>& shape) {
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.number() != 2) continue;
    WireReader dimension(reader.bytes());
    int64_t size = 0;
    while (dimension.Next()) {
      if (dimension.number() == 1) size = static_cast<int64_t>(dimension.value());
    }
    if (dimension.failed() || size < 0 || shape.size() == kMaxIndexRank) return false;
    shape.push_back(size);
  }
  return !reader.failed();
}

// BundleEntryProto: dtype = 1, shape = 2, shard_id = 3, offset = 4, size = 5, crc32c = 6 (fixed32),
// slices = 7.
Status ParseIndexEntry(const TableReader& table, const std::string& path, std::string_view value,
                       TensorFlowEntry& entry) {
  WireReader reader(value);
  bool good = true;
  while (reader.Next()) {
    switch (reader.number()) {
      case 1:
        entry.type = reader.value();
        break;
      case 2:
        good = good && ParseShape(reader.bytes(), entry.shape);
        break;
      case 3:
        entry.shard = reader.value();
        break;
      case 4:
        entry.offset = reader.value();
        break;
      case 5:
        entry.size = reader.value();
        break;
      case 6:
        entry.masked_crc32c = static_cast<uint32_t>(reader.value());
        break;
      case 7:
        return StorageError(absl::StrFormat(
            "%s: '%s' is a partitioned variable, which is not supported; save it whole", path,
            entry.name));
      default:
        break;
    }
  }
  if (reader.failed() || !good) {
    return table.Damaged("the description of '%s' does not parse", entry.name);
  }
  return OkStatus();
}

}  // namespace

StatusOr<TensorFlowIndex> ParseTensorFlowIndex(const std::string& path, std::string_view bytes) {
  const TableReader table(path, bytes);
  TensorFlowIndex index;
  bool has_header = false;
  const auto visit = [&](std::string_view key, std::string_view value) -> Status {
    if (!has_header) {
      has_header = true;
      if (!key.empty()) return table.Damaged("it does not begin with a header");
      return ParseHeader(table, path, value, index);
    }
    TensorFlowEntry entry{.name = std::string(key)};
    const std::string last = index.entries.empty() ? std::string() : index.entries.back().name;
    if (entry.name <= last) {
      return table.Damaged("'%s' follows '%s': names are not unique and in order", entry.name,
                           last);
    }
    DT_RETURN_IF_ERROR(ParseIndexEntry(table, path, value, entry));
    index.entries.push_back(std::move(entry));
    return OkStatus();
  };
  DT_RETURN_IF_ERROR(table.Read(visit));
  if (!has_header) return table.Damaged("it holds nothing");
  return index;
}

}  // namespace dtrain
