// classification_shard_fuzz.cc - whatever the bytes, a shard is refused or can be packed whole.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <numeric>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/data/internal/shard_format.h"
#include "dtrain/tasks/classification/classification_shard.h"
#include "fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // With right checksums, which no fuzzer would guess, what is behind them gets its share.
  std::vector<uint8_t> bytes(data, data + size);
  dtrain::internal::ClassificationHeader header;
  if (size >= sizeof(header)) {
    std::memcpy(&header, bytes.data(), sizeof(header));
    dtrain::internal::Seal(dtrain::Crc32c(std::as_bytes(std::span(bytes)).subspan(sizeof(header))),
                           header);
    std::memcpy(bytes.data(), &header, sizeof(header));
  }
  const dtrain::FuzzFile file(bytes.data(), bytes.size());
  const auto shard = dtrain::ClassificationShard::Open(file.path());
  if (!shard.ok()) {
    DT_CHECK(shard.status().code() == dtrain::ExitCode::kData) << shard.status().message();
    return 0;
  }
  std::vector<uint32_t> rows(static_cast<size_t>(shard->size()));
  std::iota(rows.begin(), rows.end(), 0u);
  const dtrain::ClassificationBatch batch = dtrain::PackExamples(*shard, rows);
  DT_CHECK_EQ(batch.sequences.tokens(), shard->tokens());
  size_t name_bytes = 0;
  for (const uint32_t row : rows) name_bytes += shard->name(row).size() + shard->groups(row) % 2;
  DT_CHECK_LE(name_bytes, size);
  return 0;
}
