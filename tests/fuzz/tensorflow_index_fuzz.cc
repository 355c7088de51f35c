// tensorflow_index_fuzz.cc - any bytes: a TensorFlow checkpoint's index is read or refused.
// SPDX-License-Identifier: Apache-2.0
//
// Random bytes fail the blocks' checksums, so the input's blocks are given right ones first: their
// places are those of a table of the seeds' kind, one entry block from byte 0, the metaindex behind
// it, then the index.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "dtrain/base/check.h"
#include "dtrain/base/crc.h"
#include "dtrain/formats/internal/wire_reader.h"
#include "dtrain/formats/weight_file.h"

namespace dtrain {
namespace {

// Sets the checksum of the block that the handle in front of `handle` names, if it lies in `table`.
void Repair(std::string_view& handle, std::string& table) {
  uint64_t offset = 0;
  uint64_t size = 0;
  if (!internal::TakeVarint(handle, offset) || !internal::TakeVarint(handle, size) ||
      offset > table.size() || size > table.size() - offset || table.size() - offset - size < 5) {
    return;
  }
  const uint32_t crc = MaskedCrc32c(std::string_view(table).substr(offset, size + 1));
  std::memcpy(table.data() + offset + size + 1, &crc, sizeof(crc));
}

void RepairAll(std::string& table) {
  if (table.size() < 48) return;
  // The index first: its entries are the handles of the other blocks, at most a few here.
  const std::string footer = table.substr(table.size() - 48, 40);
  std::string_view handles = footer;
  uint64_t offset = 0;
  uint64_t size = 0;
  internal::TakeVarint(handles, offset);
  internal::TakeVarint(handles, size);
  std::string_view index_handle = handles;
  if (internal::TakeVarint(handles, offset) && internal::TakeVarint(handles, size) &&
      offset < table.size() && size > 3 && size < table.size() - offset) {
    // An entry of the index: three lengths, a key, a handle.
    const std::string index = table.substr(offset, size);
    std::string_view entry = index;
    uint64_t shared = 0;
    uint64_t key = 0;
    uint64_t value = 0;
    std::string_view skipped;
    if (internal::TakeVarint(entry, shared) && internal::TakeVarint(entry, key) &&
        internal::TakeVarint(entry, value) && internal::TakeBytes(entry, key, skipped)) {
      Repair(entry, table);
    }
  }
  Repair(index_handle, table);
}

}  // namespace
}  // namespace dtrain

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string table(reinterpret_cast<const char*>(data), size);
  dtrain::RepairAll(table);
  const auto index = dtrain::ParseTensorFlowIndex("x.index", table);
  if (!index.ok()) {
    DT_CHECK(index.status().code() == dtrain::ExitCode::kStorage) << index.status().message();
    return 0;
  }
  DT_CHECK(std::is_sorted(index->entries.begin(), index->entries.end(),
                          [](const auto& a, const auto& b) { return a.name < b.name; }));
  return 0;
}
