// examples.cc - draws where texts are cut, once to plan examples and once to pack them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/examples.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/data/internal/hash.h"

namespace dtrain {
namespace {

// Purposes of random numbers: each document's cuts, and each example's mask.
constexpr uint64_t kCuts = 0x43555453;
constexpr uint64_t kMasks = 0x4D41534B;

int64_t SumOf(std::span<const uint16_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

void Append(const TokenView& from, std::vector<int32_t>& ids) {
  for (int64_t i = 0; i < from.size(); ++i) ids.push_back(from[i]);
}

struct Range {
  int64_t begin = 0;
  int64_t length = 0;
};

// Two ranges of the shard's tokens. The second one is empty for single texts.
struct Example {
  Range first = {};
  Range second = {};
  bool random_next = false;
};

}  // namespace

// Makes one example after the other, from the first or from any stored position.
class PretrainingExamples::Maker {
 public:
  Maker(const PretrainingExamples& owner, const Place& place)
      : owner_(owner), shard_(owner.shard_), longest_(owner.options_.max_length - owner.special()) {
    Enter(place.document);
    if (done() || place.drawn == 0) return;
    random_ = RandomStream(owner_.KeyOf(kCuts, document_), place.drawn);
    next_ = static_cast<size_t>(place.segment);
    begin_ = owner_.offsets_.Before(static_cast<size_t>(shard_.segment_begin(document_)) + next_);
  }

  bool done() const { return document_ == shard_.documents(); }
  Place place() const {
    return {
        .document = document_, .segment = static_cast<int64_t>(next_), .drawn = random_.drawn()};
  }
  Example Next() {
    const Example example = owner_.options_.next_sentence ? NextPair() : NextSingle();
    if (next_ == segments_.size()) Enter(document_ + 1);
    return example;
  }

 private:
  void Enter(int64_t document);
  int64_t TargetLength();
  Example NextPair();
  Example NextSingle();
  Range RandomRange(int64_t wanted);
  void Truncate(Example& example);

  const PretrainingExamples& owner_;
  const DocumentShard& shard_;
  const int64_t longest_;
  int64_t document_ = 0;
  // The current document's segments.
  std::span<const uint16_t> segments_;
  RandomStream random_{RandomKey{}};
  int64_t target_ = 0;
  // The start of the next example: a segment, and its first token among all tokens.
  size_t next_ = 0;
  int64_t begin_ = 0;
};

PretrainingExamples::PretrainingExamples(const DocumentShard& shard,
                                         const PretrainingExampleOptions& options, int64_t epoch)
    : shard_(shard), options_(options), epoch_(epoch), offsets_(shard.segment_lengths()) {
  DT_CHECK(options.max_length >= PretrainingExampleOptions::kMinLength &&
           options.max_length <= std::numeric_limits<uint16_t>::max())
      << "max_length " << options.max_length;
  DT_CHECK_LT(shard.documents(), int64_t{std::numeric_limits<uint32_t>::max()});
  // Each example takes at least one segment, so this is enough. Unused reserved memory is never
  // touched and costs nothing, whereas growing would hold the data twice.
  lengths_.reserve(static_cast<size_t>(shard.segments()));
  places_.reserve(static_cast<size_t>(shard.segments()) / kStride + 1);
  for (Maker maker(*this, {}); !maker.done();) {
    if (lengths_.size() % kStride == 0) places_.push_back(maker.place());
    const Example example = maker.Next();
    lengths_.push_back(
        static_cast<uint16_t>(example.first.length + example.second.length + special()));
  }
  lengths_.shrink_to_fit();
  places_.shrink_to_fit();
  DT_CHECK_LT(size(), int64_t{std::numeric_limits<uint32_t>::max()});
}

RandomKey PretrainingExamples::KeyOf(uint64_t purpose, int64_t number) const {
  return {.seed = internal::MixHash(options_.seed, purpose),
          .step = static_cast<uint32_t>(epoch_),
          .site = static_cast<uint32_t>(number)};
}

// After the last document the maker is done.
void PretrainingExamples::Maker::Enter(int64_t document) {
  document_ = document;
  next_ = 0;
  if (done()) return;
  segments_ = shard_.segment_lengths(document);
  random_ = RandomStream(owner_.KeyOf(kCuts, document));
  target_ = TargetLength();
  begin_ = shard_.token_begin(document);
}

int64_t PretrainingExamples::Maker::TargetLength() {
  if (static_cast<double>(random_.NextUniform()) >= owner_.options_.short_share) return longest_;
  return 2 + int64_t{random_.NextBelow(static_cast<uint32_t>(longest_ - 1))};
}

Example PretrainingExamples::Maker::NextPair() {
  size_t count = 0;
  int64_t collected = 0;
  while (next_ + count < segments_.size() && collected < target_) {
    collected += segments_[next_ + count++];
  }
  const size_t first_count =
      count == 1 ? 1 : 1 + random_.NextBelow(static_cast<uint32_t>(count - 1));
  Example example{.first = {begin_, SumOf(segments_.subspan(next_, first_count))}};
  const int64_t first_length = example.first.length;
  example.second = {begin_ + first_length, collected - first_length};
  example.random_next = count == 1 || random_.NextUniform() < 0.5f;
  if (example.random_next) {
    collected = first_length;
    count = first_count;
    example.second = RandomRange(target_ - first_length);
  }
  begin_ += collected;
  next_ += count;
  Truncate(example);
  return example;
}

Example PretrainingExamples::Maker::NextSingle() {
  int64_t collected = segments_[next_++];
  while (next_ < segments_.size() && collected + segments_[next_] <= target_) {
    collected += segments_[next_++];
  }
  const Range text{begin_, std::min(collected, longest_)};
  begin_ += collected;
  return {.first = text};
}

// Segments of another document, from a random one on, until they have `wanted` tokens or the
// document ends; at least one.
Range PretrainingExamples::Maker::RandomRange(int64_t wanted) {
  int64_t document = 0;
  if (shard_.documents() > 1) {
    document = random_.NextBelow(static_cast<uint32_t>(shard_.documents() - 1));
    if (document >= document_) ++document;
  }
  const std::span<const uint16_t> lengths = shard_.segment_lengths(document);
  size_t next = random_.NextBelow(static_cast<uint32_t>(lengths.size()));
  const auto segment = static_cast<size_t>(shard_.segment_begin(document)) + next;
  Range range{owner_.offsets_.Before(segment), lengths[next]};
  while (++next < lengths.size() && range.length < wanted) range.length += lengths[next];
  return range;
}

void PretrainingExamples::Maker::Truncate(Example& example) {
  auto& [first, second, random_next] = example;
  while (first.length + second.length > longest_) {
    Range& longer = first.length > second.length ? first : second;
    if (random_.NextUniform() < 0.5f) ++longer.begin;
    --longer.length;
  }
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
    Maker maker(*this, places_[sample / kStride]);
    for (size_t i = sample % kStride; i > 0; --i) maker.Next();
    const auto [first, second, random_next] = maker.Next();
    ids = {vocabulary.cls_id};
    Append(shard_.ids(first.begin, first.length), ids);
    ids.push_back(vocabulary.sep_id);
    if (options_.next_sentence) {
      Append(shard_.ids(second.begin, second.length), ids);
      ids.push_back(vocabulary.sep_id);
      batch.next_labels.push_back(random_next ? 1.0f : 0.0f);
      batch.next_weights.push_back(next_weight);
    }
    RandomStream random(KeyOf(kMasks, sample));
    const size_t first_mask = batch.masked_rows.size();
    MaskTokens(vocabulary, options_.masking, random, ids, batch.masked_rows, batch.masked_ids);
    for (size_t i = first_mask; i < batch.masked_rows.size(); ++i) {
      batch.masked_rows[i] += offsets.back();
    }
    batch.AppendTokens(ids, first.length + 2);
    offsets.push_back(static_cast<int32_t>(batch.token_ids.size()));
  }
  batch.sequences = Sequences(std::move(offsets));
  return batch;
}

}  // namespace dtrain
