// shard_index_fuzz.cc - whatever the bytes, an index of shards is read or refused.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "dtrain/base/check.h"
#include "dtrain/formats/weight_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto map = dtrain::ParseShardIndex("x.json", {reinterpret_cast<const char*>(data), size});
  if (!map.ok()) {
    DT_CHECK(map.status().code() == dtrain::ExitCode::kStorage) << map.status().message();
    return 0;
  }
  // No name leads out of the index's folder.
  for (const auto& [name, file] : *map) DT_CHECK(file.find('/') == std::string::npos) << file;
  return 0;
}
