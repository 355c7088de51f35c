// document_shards.h - small document shards of numbered tokens for tests of pre-training.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_DOCUMENT_SHARDS_H_
#define DTRAIN_TESTS_TESTING_DOCUMENT_SHARDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/tasks/pretraining/document_shard.h"
#include "testing/catch.h"

namespace dtrain::testing {

inline constexpr int32_t kClsId = 2;
inline constexpr int32_t kSepId = 3;
inline constexpr int32_t kMaskId = 4;
inline constexpr int32_t kFirstWord = 10;

inline DocumentShardInfo DocumentInfo(int64_t vocab_size) {
  return {.vocab_size = vocab_size,
          .vocab_hash = 7,
          .key = 9,
          .cls_id = kClsId,
          .sep_id = kSepId,
          .mask_id = kMaskId,
          .continues_word = std::vector<uint8_t>(static_cast<size_t>(vocab_size))};
}

// Lengths of the segments of each document.
using SegmentLengths = std::vector<std::vector<int>>;

// `documents` of up to `max_segments` segments of up to `max_length` tokens each.
inline SegmentLengths RandomSegments(int documents, int max_segments, int max_length,
                                     uint64_t seed) {
  RandomStream random({.seed = seed});
  const auto up_to = [&](int bound) {
    return 1 + static_cast<int>(random.NextBelow(static_cast<uint32_t>(bound)));
  };
  SegmentLengths lengths(static_cast<size_t>(documents));
  for (std::vector<int>& document : lengths) {
    for (int s = up_to(max_segments); s > 0; --s) document.push_back(up_to(max_length));
  }
  return lengths;
}

// Token i of the shard is kFirstWord + i, as long as the vocabulary goes, then from kFirstWord
// again.
inline DocumentShard WriteDocumentShard(const std::string& path, const SegmentLengths& lengths,
                                        int64_t vocab_size) {
  auto writer = DocumentShardWriter::Create(path, DocumentInfo(vocab_size));
  REQUIRE(writer.ok());
  int32_t next = 0;
  for (const std::vector<int>& document : lengths) {
    for (const int length : document) {
      std::vector<int32_t> ids;
      for (int i = 0; i < length; ++i) {
        ids.push_back(kFirstWord + next++ % static_cast<int32_t>(vocab_size - kFirstWord));
      }
      REQUIRE(writer->AddSegment(ids).ok());
    }
    writer->EndDocument();
  }
  REQUIRE(writer->Finish("{}").ok());
  auto shard = DocumentShard::Open(path);
  REQUIRE(shard.ok());
  return *std::move(shard);
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_DOCUMENT_SHARDS_H_
