// document_shard_fuzz.cc - whatever the bytes, a shard is refused or examples are made of it.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <numeric>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/data/internal/shard_format.h"
#include "dtrain/tasks/pretraining/document_shard.h"
#include "dtrain/tasks/pretraining/examples.h"
#include "fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // With right checksums, which no fuzzer would guess, what is behind them gets its share.
  std::vector<uint8_t> bytes(data, data + size);
  dtrain::internal::DocumentHeader header;
  if (size >= sizeof(header)) {
    std::memcpy(&header, bytes.data(), sizeof(header));
    dtrain::internal::Seal(dtrain::Crc32c(std::as_bytes(std::span(bytes)).subspan(sizeof(header))),
                           header);
    std::memcpy(bytes.data(), &header, sizeof(header));
  }
  const dtrain::FuzzFile file(bytes.data(), bytes.size());
  const auto shard = dtrain::DocumentShard::Open(file.path());
  if (!shard.ok()) {
    DT_CHECK(shard.status().code() == dtrain::ExitCode::kData) << shard.status().message();
    return 0;
  }
  for (const bool next_sentence : {true, false}) {
    const dtrain::PretrainingExamples examples(
        *shard,
        {.max_length = 16, .next_sentence = next_sentence, .masking = {.whole_words = true}}, 0);
    std::vector<uint32_t> all(static_cast<size_t>(examples.size()));
    std::iota(all.begin(), all.end(), 0u);
    const dtrain::PretrainingBatch batch = examples.Pack(all, 1.0f);
    DT_CHECK_LE(batch.sequences.tokens(), 16 * examples.size());
    // Fewer where the bytes say that text has special tokens.
    DT_CHECK_LE(batch.masked(), examples.Masked(all));
    for (const uint32_t sample : all) {
      DT_CHECK_EQ(batch.sequences.length(sample), int64_t{examples.lengths()[sample]});
    }
  }
  return 0;
}
