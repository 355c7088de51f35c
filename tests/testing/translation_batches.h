// translation_batches.h - small random sentence pairs for tests of models and training.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_TRANSLATION_BATCHES_H_
#define DTRAIN_TESTS_TESTING_TRANSLATION_BATCHES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/models/seq2seq_transformer.h"

namespace dtrain::testing {

inline constexpr int32_t kEnd = 2;

struct SentencePair {
  std::vector<int32_t> source, target;  // without the end symbol
};

// `count` pairs of 1 to max_length ids in [3, vocab_size - 1).
inline std::vector<SentencePair> RandomPairs(int count, int max_length, int64_t vocab_size,
                                             uint64_t seed) {
  RandomStream random({.seed = seed});
  std::vector<SentencePair> pairs(static_cast<size_t>(count));
  for (SentencePair& pair : pairs) {
    for (std::vector<int32_t>* side : {&pair.source, &pair.target}) {
      side->resize(1 + random.NextBelow(static_cast<uint32_t>(max_length)));
      for (int32_t& id : *side) {
        id = static_cast<int32_t>(3 + random.NextBelow(static_cast<uint32_t>(vocab_size - 4)));
      }
    }
  }
  return pairs;
}

// Packs pairs [begin, end).
inline TranslationBatch Pack(const std::vector<SentencePair>& pairs, size_t begin, size_t end,
                             int32_t pad_id) {
  TranslationBatch batch;
  std::vector<int32_t> source_offsets{0};
  std::vector<int32_t> target_offsets{0};
  for (size_t i = begin; i < end; ++i) {
    const SentencePair& pair = pairs[i];
    batch.source_ids.insert(batch.source_ids.end(), pair.source.begin(), pair.source.end());
    batch.source_ids.push_back(kEnd);
    batch.decoder_ids.push_back(pad_id);
    batch.decoder_ids.insert(batch.decoder_ids.end(), pair.target.begin(), pair.target.end());
    batch.target_ids.insert(batch.target_ids.end(), pair.target.begin(), pair.target.end());
    batch.target_ids.push_back(kEnd);
    source_offsets.push_back(static_cast<int32_t>(batch.source_ids.size()));
    target_offsets.push_back(static_cast<int32_t>(batch.target_ids.size()));
  }
  batch.source = Sequences(std::move(source_offsets));
  batch.target = Sequences(std::move(target_offsets));
  return batch;
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_TRANSLATION_BATCHES_H_
