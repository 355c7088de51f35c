// examples_test.cc - examples follow BERT's rules, and nothing but their number counts.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/examples.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>

#include "dtrain/base/crc.h"
#include "testing/catch.h"
#include "testing/document_shards.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using testing::kFirstWord;

constexpr int64_t kVocab = 1 << 20;  // no token occurs twice

std::vector<uint32_t> All(const PretrainingExamples& examples) {
  std::vector<uint32_t> all(static_cast<size_t>(examples.size()));
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

// Tokens of a part of an example, as numbers in the shard; their masks are taken off.
struct Part {
  int64_t begin = 0;
  int64_t size = 0;
  int64_t document = 0;
};

struct Unpacked {
  Part first, second;
  bool random_next = false;
};

class Shard {
 public:
  explicit Shard(const testing::SegmentLengths& lengths)
      : lengths_(lengths),
        shard_(testing::WriteDocumentShard(folder_.File("s"), lengths, kVocab)) {}

  const DocumentShard& get() const { return shard_; }
  int64_t DocumentOf(int64_t token) const {
    int64_t document = 0;
    while (document + 1 < shard_.documents() && shard_.token_begin(document + 1) <= token) {
      ++document;
    }
    return document;
  }
  // Whether a segment begins at this token.
  bool BeginsSegment(int64_t token) const {
    int64_t begin = 0;
    for (const auto& document : lengths_) {
      for (const int length : document) {
        if (begin == token) return true;
        begin += length;
      }
    }
    return false;
  }

  std::vector<Unpacked> Unpack(const PretrainingBatch& batch) const {
    std::vector<int32_t> ids = batch.token_ids;
    for (size_t i = 0; i < batch.masked_rows.size(); ++i) {
      ids[static_cast<size_t>(batch.masked_rows[i])] = batch.masked_ids[i];
    }
    std::vector<Unpacked> result;
    for (int64_t s = 0; s < batch.size(); ++s) {
      const auto& offsets = batch.sequences.offsets();
      const std::vector<int32_t> one(ids.begin() + offsets[static_cast<size_t>(s)],
                                     ids.begin() + offsets[static_cast<size_t>(s) + 1]);
      REQUIRE(one.front() == testing::kClsId);
      REQUIRE(one.back() == testing::kSepId);
      Unpacked example;
      const auto middle = std::find(one.begin(), one.end(), testing::kSepId);
      example.first = PartOf({one.begin() + 1, middle});
      if (middle + 1 != one.end()) example.second = PartOf({middle + 1, one.end() - 1});
      if (!batch.next_labels.empty()) {
        example.random_next = batch.next_labels[static_cast<size_t>(s)] == 1.0f;
      }
      result.push_back(example);
    }
    return result;
  }

 private:
  Part PartOf(const std::vector<int32_t>& ids) const {
    REQUIRE_FALSE(ids.empty());
    for (size_t i = 1; i < ids.size(); ++i) REQUIRE(ids[i] == ids[i - 1] + 1);
    const int64_t begin = ids.front() - kFirstWord;
    const auto size = static_cast<int64_t>(ids.size());
    CHECK(DocumentOf(begin) == DocumentOf(begin + size - 1));
    return {begin, size, DocumentOf(begin)};
  }

  testing::SegmentLengths lengths_;
  TemporaryFolder folder_;
  DocumentShard shard_;
};

TEST_CASE("a pair is two stretches of text, the second next to the first or of another document") {
  const Shard shard(testing::RandomSegments(60, 40, 30, 1));
  const PretrainingExamples examples(shard.get(), {.max_length = 64, .seed = 3}, 0);
  const std::vector<Unpacked> unpacked = shard.Unpack(examples.Pack(All(examples), 1.0f));
  int random = 0, full = 0;
  for (size_t i = 0; i < unpacked.size(); ++i) {
    const auto& [first, second, random_next] = unpacked[i];
    const int64_t length = first.size + second.size + 3;
    CHECK(length == examples.lengths()[i]);
    CHECK(length <= 64);
    full += length == 64;
    random += random_next;
    CHECK((first.document != second.document) == random_next);
    // Tokens may have been cut off between them, at the end of the one or the start of the other.
    if (!random_next) CHECK(second.begin >= first.begin + first.size);
    if (!random_next) CHECK(second.begin <= first.begin + first.size + 30);
  }
  const auto count = static_cast<double>(examples.size());
  CHECK(count > 300);
  CHECK(random / count == Approx(0.5).margin(0.1));
  CHECK(full / count > 0.5);
}

TEST_CASE("every text is some example's first or next one") {
  // Segments of one length, so that nothing is cut off: 4 of 10 make the 40 wanted, in all or less
  // where the rest of a document is put back.
  testing::SegmentLengths lengths(20, std::vector<int>(37, 10));
  const Shard shard(lengths);
  const PretrainingExamples examples(shard.get(), {.max_length = 43, .short_share = 0.0, .seed = 5},
                                     2);
  std::set<int64_t> seen;
  for (const auto& [first, second, random_next] :
       shard.Unpack(examples.Pack(All(examples), 1.0f))) {
    CHECK(shard.BeginsSegment(first.begin));
    CHECK(shard.BeginsSegment(second.begin));
    CHECK(first.size % 10 == 0);
    CHECK(second.size % 10 == 0);
    for (int64_t t = 0; t < first.size; ++t) CHECK(seen.insert(first.begin + t).second);
    for (int64_t t = 0; t < second.size && !random_next; ++t) {
      CHECK(seen.insert(second.begin + t).second);
    }
  }
  CHECK(static_cast<int64_t>(seen.size()) == shard.get().tokens());
}

TEST_CASE("a tenth of the documents gives shorter examples") {
  const Shard shard(testing::SegmentLengths(600, std::vector<int>(4, 25)));
  for (const double share : {0.0, 0.1, 1.0}) {
    const PretrainingExamples examples(shard.get(),
                                       {.max_length = 103, .short_share = share, .seed = 3}, 0);
    std::set<int64_t> shorter;
    for (const Unpacked& example : shard.Unpack(examples.Pack(All(examples), 1.0f))) {
      const bool from_start = example.first.begin % 100 == 0;
      const int64_t length = example.first.size + example.second.size;
      if (from_start && !example.random_next && length < 100) {
        shorter.insert(example.first.document);
      }
    }
    const double found = static_cast<double>(shorter.size()) / 600.0;
    if (share == 0.0) CHECK(found == 0.0);
    if (share == 0.1) CHECK((found > 0.01 && found < 0.1));  // half are random, some just fit
    if (share == 1.0) CHECK(found > 0.2);
  }
}

TEST_CASE("one document alone, and one segment, still give pairs") {
  const Shard one(testing::SegmentLengths{{3, 2, 4}});
  const PretrainingExamples examples(one.get(), {.max_length = 16}, 0);
  REQUIRE(examples.size() >= 1);
  CHECK(examples.Pack(All(examples), 1.0f).size() == examples.size());
  const Shard shard({{300}, {1}});
  const PretrainingExamples cut(shard.get(), {.max_length = 16, .short_share = 0.0}, 0);
  REQUIRE(cut.size() == 2);
  const PretrainingBatch batch = cut.Pack(All(cut), 1.0f);
  CHECK(batch.next_labels == std::vector<float>{1.0f, 1.0f});
  CHECK(shard.Unpack(batch)[0].first.size == 12);
  CHECK(shard.Unpack(batch)[0].second.size == 1);
  CHECK(shard.Unpack(batch)[1].second.size == 12);
  const Shard none(testing::SegmentLengths{});
  CHECK(PretrainingExamples(none.get(), {}, 0).size() == 0);
}

TEST_CASE("without the next sentence an example is the segments of a document that fit") {
  const Shard shard({{5, 5, 4, 6, 20, 3}, {2}});
  const PretrainingExamples examples(
      shard.get(), {.max_length = 16, .short_share = 0.0, .next_sentence = false}, 0);
  const PretrainingBatch batch = examples.Pack(All(examples), 1.0f);
  CHECK(batch.next_labels.empty());
  CHECK(batch.next_weights.empty());
  CHECK(std::count(batch.type_ids.begin(), batch.type_ids.end(), 0) ==
        static_cast<int64_t>(batch.type_ids.size()));
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (const Unpacked& example : shard.Unpack(batch)) {
    parts.emplace_back(example.first.begin, example.first.size);
  }
  // Of the segment of 20 what fits.
  CHECK(parts ==
        std::vector<std::pair<int64_t, int64_t>>{{0, 14}, {14, 6}, {20, 14}, {40, 3}, {43, 2}});
}

TEST_CASE("batches have types, positions, masks, labels and weights") {
  const Shard shard(testing::RandomSegments(20, 9, 12, 2));
  const PretrainingExamples examples(shard.get(), {.max_length = 32, .seed = 7}, 1);
  const std::vector<uint32_t> samples = {4, 1, 9};
  CHECK(examples.Masked(samples) == examples.Pack(samples, 1.0f).masked());
  CHECK(examples.NextWeight(samples) ==
        Approx(static_cast<double>(examples.Masked(samples)) / 3.0));
  const PretrainingBatch batch = examples.Pack(samples, 2.5f);
  REQUIRE(batch.size() == 3);
  CHECK(batch.next_weights == std::vector<float>{2.5f, 2.5f, 2.5f});
  const std::vector<Unpacked> unpacked = shard.Unpack(batch);
  for (size_t s = 0; s < 3; ++s) {
    const auto begin = static_cast<size_t>(batch.sequences.offsets()[s]);
    const auto first = static_cast<size_t>(unpacked[s].first.size) + 2;
    const auto length = static_cast<size_t>(batch.sequences.length(static_cast<int64_t>(s)));
    for (size_t t = 0; t < length; ++t) {
      CHECK(batch.position_ids[begin + t] == static_cast<int32_t>(t));
      CHECK(batch.type_ids[begin + t] == (t < first ? 0 : 1));
    }
  }
  CHECK(examples.Pack({}, 1.0f).size() == 0);
  CHECK(examples.NextWeight({}) == 0.0f);
}

TEST_CASE("an example depends on seed, epoch and number alone") {
  const Shard shard(testing::RandomSegments(40, 20, 20, 4));
  const PretrainingExampleOptions options{.max_length = 48, .seed = 3};
  const PretrainingExamples examples(shard.get(), options, 5);
  const PretrainingBatch all = examples.Pack(All(examples), 1.0f);
  const PretrainingExamples again(shard.get(), options, 5);
  CHECK(again.Pack(All(again), 1.0f).token_ids == all.token_ids);
  for (const uint32_t i : {0u, 7u, static_cast<uint32_t>(examples.size() - 1)}) {
    const std::vector<uint32_t> one = {i};
    const PretrainingBatch alone = examples.Pack(one, 1.0f);
    const auto begin = all.token_ids.begin() + all.sequences.offsets()[i];
    CHECK(std::equal(alone.token_ids.begin(), alone.token_ids.end(), begin));
  }
  const PretrainingExamples later(shard.get(), options, 6);
  CHECK(later.Pack(All(later), 1.0f).token_ids != all.token_ids);
  PretrainingExampleOptions other = options;
  other.seed = 4;
  const PretrainingExamples seeded(shard.get(), other, 5);
  CHECK(seeded.Pack(All(seeded), 1.0f).token_ids != all.token_ids);
}

// Of all that a model sees of an epoch.
uint32_t CrcOf(const PretrainingExamples& examples) {
  const PretrainingBatch batch = examples.Pack(All(examples), 1.0f);
  uint32_t crc = 0;
  for (const auto& part : {batch.token_ids, batch.type_ids, batch.masked_rows, batch.masked_ids}) {
    crc = Crc32c(std::as_bytes(std::span(part)), crc);
  }
  return Crc32c(std::as_bytes(std::span(batch.next_labels)), crc);
}

TEST_CASE("a seed's examples stay what they were, so that runs of older versions go on") {
  // Up to 400 segments, so that most examples are drawn from the midst of a document.
  const Shard shard(testing::RandomSegments(12, 400, 30, 6));
  PretrainingExampleOptions options{.max_length = 48, .seed = 3};
  const PretrainingExamples pairs(shard.get(), options, 2);
  CHECK(pairs.size() == 1003);
  CHECK(CrcOf(pairs) == 0x07502436);
  options.next_sentence = false;
  const PretrainingExamples texts(shard.get(), options, 2);
  CHECK(texts.size() == 1105);
  CHECK(CrcOf(texts) == 0xaf1d7027);
}

TEST_CASE("lengths that no pair fits are refused") {
  const Shard shard(testing::SegmentLengths{{3}});
  CHECK_THROWS(PretrainingExamples(shard.get(), {.max_length = 4}, 0));
  CHECK_THROWS(PretrainingExamples(shard.get(), {.max_length = 65536}, 0));
}

}  // namespace
}  // namespace dtrain
