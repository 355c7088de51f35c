// pretraining_examples.cc - the plan draws ranges of tokens; packing copies and masks them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/pretraining_examples.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/data/internal/hash.h"

namespace dtrain {
namespace {

// What random numbers are for: each document's cuts, each example's mask.
constexpr uint64_t kCuts = 0x43555453;
constexpr uint64_t kMasks = 0x4D41534B;

int64_t SumOf(std::span<const uint16_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

void Append(const TokenView& from, std::vector<int32_t>& ids) {
  for (int64_t i = 0; i < from.size(); ++i) ids.push_back(from[i]);
}

}  // namespace

PretrainingExamples::PretrainingExamples(const DocumentShard& shard,
                                         const PretrainingExampleOptions& options, int64_t epoch)
    : shard_(shard), options_(options), epoch_(epoch), offsets_(shard.segment_lengths()) {
  DT_CHECK(options.max_length >= PretrainingExampleOptions::kMinLength &&
           options.max_length <= std::numeric_limits<uint16_t>::max())
      << "max_length " << options.max_length;
  DT_CHECK_LT(shard.documents(), int64_t{std::numeric_limits<uint32_t>::max()});
  for (int64_t document = 0; document < shard.documents(); ++document) {
    options.next_sentence ? PlanPairs(document) : PlanSingles(document);
  }
  DT_CHECK_LT(size(), int64_t{std::numeric_limits<uint32_t>::max()});
}

RandomKey PretrainingExamples::KeyOf(uint64_t purpose, int64_t number) const {
  return {.seed = internal::MixHash(options_.seed, purpose),
          .step = static_cast<uint32_t>(epoch_),
          .site = static_cast<uint32_t>(number)};
}

int64_t PretrainingExamples::TargetLength(RandomStream& random) const {
  const int32_t longest = options_.max_length - special();
  if (static_cast<double>(random.NextUniform()) >= options_.short_share) return longest;
  return 2 + int64_t{random.NextBelow(static_cast<uint32_t>(longest - 1))};
}

void PretrainingExamples::PlanPairs(int64_t document) {
  RandomStream random(KeyOf(kCuts, document));
  const std::span<const uint16_t> lengths = shard_.segment_lengths(document);
  const int64_t target = TargetLength(random);
  int64_t begin = shard_.token_begin(document);
  for (size_t next = 0; next < lengths.size();) {
    size_t count = 0;
    int64_t collected = 0;
    while (next + count < lengths.size() && collected < target)
      collected += lengths[next + count++];
    const size_t first_count =
        count == 1 ? 1 : 1 + random.NextBelow(static_cast<uint32_t>(count - 1));
    Range first{begin, SumOf(lengths.subspan(next, first_count))};
    Range second{begin + first.length, collected - first.length};
    const bool random_next = count == 1 || random.NextUniform() < 0.5f;
    if (random_next) {
      collected = first.length;
      count = first_count;
      second = RandomRange(document, target - first.length, random);
    }
    begin += collected;
    next += count;
    Truncate(first, second, random);
    Add(first, second, random_next);
  }
}

void PretrainingExamples::PlanSingles(int64_t document) {
  RandomStream random(KeyOf(kCuts, document));
  const std::span<const uint16_t> lengths = shard_.segment_lengths(document);
  const int64_t longest = options_.max_length - special();
  const int64_t target = TargetLength(random);
  int64_t begin = shard_.token_begin(document);
  for (size_t next = 0; next < lengths.size();) {
    int64_t collected = lengths[next++];
    while (next < lengths.size() && collected + lengths[next] <= target) {
      collected += lengths[next++];
    }
    Add({begin, std::min(collected, longest)}, {}, /*random_next=*/false);
    begin += collected;
  }
}

// Whole segments from a random one on, until they hold `wanted` tokens or the document ends; one at
// least.
PretrainingExamples::Range PretrainingExamples::RandomRange(int64_t other_than, int64_t wanted,
                                                            RandomStream& random) const {
  int64_t document = 0;
  if (shard_.documents() > 1) {
    document = random.NextBelow(static_cast<uint32_t>(shard_.documents() - 1));
    if (document >= other_than) ++document;
  }
  const std::span<const uint16_t> lengths = shard_.segment_lengths(document);
  size_t next = random.NextBelow(static_cast<uint32_t>(lengths.size()));
  const auto segment = static_cast<size_t>(shard_.segment_begin(document)) + next;
  Range range{offsets_.Before(segment), lengths[next]};
  while (++next < lengths.size() && range.length < wanted) range.length += lengths[next];
  return range;
}

void PretrainingExamples::Truncate(Range& first, Range& second, RandomStream& random) const {
  const int64_t longest = options_.max_length - special();
  while (first.length + second.length > longest) {
    Range& longer = first.length > second.length ? first : second;
    if (random.NextUniform() < 0.5f) ++longer.begin;
    --longer.length;
  }
}

void PretrainingExamples::Add(const Range& first, const Range& second, bool random_next) {
  examples_.push_back({.first_begin = first.begin,
                       .second_begin = second.begin,
                       .first_length = static_cast<uint16_t>(first.length),
                       .second_length = static_cast<uint16_t>(second.length),
                       .random_next = random_next});
  lengths_.push_back(static_cast<int32_t>(first.length + second.length) + special());
}

int64_t PretrainingExamples::Masked(std::span<const uint32_t> samples) const {
  int64_t masked = 0;
  for (const uint32_t sample : samples) {
    masked += MaskedCount(lengths_[sample], special(), options_.masking);
  }
  return masked;
}

float PretrainingExamples::NextWeight(std::span<const uint32_t> samples) const {
  if (samples.empty()) return 0.0f;
  return static_cast<float>(static_cast<double>(Masked(samples)) /
                            static_cast<double>(samples.size()));
}

PretrainingBatch PretrainingExamples::Pack(std::span<const uint32_t> samples,
                                           float next_weight) const {
  const DocumentShardInfo& vocabulary = shard_.info();
  PretrainingBatch batch;
  std::vector<int32_t> offsets = {0};
  std::vector<int32_t> ids;
  for (const uint32_t sample : samples) {
    const Example& example = examples_[sample];
    ids = {vocabulary.cls_id};
    Append(shard_.ids(example.first_begin, example.first_length), ids);
    ids.push_back(vocabulary.sep_id);
    if (options_.next_sentence) {
      Append(shard_.ids(example.second_begin, example.second_length), ids);
      ids.push_back(vocabulary.sep_id);
      batch.next_labels.push_back(example.random_next ? 1.0f : 0.0f);
      batch.next_weights.push_back(next_weight);
    }
    RandomStream random(KeyOf(kMasks, sample));
    const size_t first_mask = batch.masked_rows.size();
    MaskTokens(vocabulary, options_.masking, random, ids, batch.masked_rows, batch.masked_ids);
    for (size_t i = first_mask; i < batch.masked_rows.size(); ++i) {
      batch.masked_rows[i] += offsets.back();
    }
    batch.AppendTokens(ids, example.first_length + 2);
    offsets.push_back(static_cast<int32_t>(batch.token_ids.size()));
  }
  batch.sequences = Sequences(std::move(offsets));
  return batch;
}

}  // namespace dtrain
