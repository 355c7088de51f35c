// loader_test.cc - ranks share the batches of one run, from any place, epoch by epoch.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/loader.h"

#include <algorithm>
#include <map>

#include "testing/catch.h"
#include "testing/document_shards.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

struct Data {
  TemporaryFolder folder;
  DocumentShard shard = testing::WriteDocumentShard(
      folder.File("s"), testing::RandomSegments(30, 12, 10, 1), 1 << 16);
  PretrainingLoaderOptions options = {.examples = {.max_length = 24, .seed = 2},
                                      .batch = {.samples_per_batch = 16}};

  PretrainingLoader Load(const DataPosition& start = {}) const {
    auto loader = PretrainingLoader::Create(shard, options, start);
    INFO(loader.status().message());
    REQUIRE(loader.ok());
    return *std::move(loader);
  }
};

// The sequences of some batches, in any order.
std::multimap<std::vector<int32_t>, std::vector<int32_t>> SequencesOf(
    const std::vector<PretrainingBatch>& batches) {
  std::multimap<std::vector<int32_t>, std::vector<int32_t>> sequences;
  for (const PretrainingBatch& batch : batches) {
    for (size_t s = 0; s < static_cast<size_t>(batch.size()); ++s) {
      const auto begin = batch.sequences.offsets()[s];
      const auto end = batch.sequences.offsets()[s + 1];
      std::vector<int32_t> masked;
      for (size_t i = 0; i < batch.masked_rows.size(); ++i) {
        if (batch.masked_rows[i] >= begin && batch.masked_rows[i] < end) {
          masked.push_back(batch.masked_rows[i] - begin);
          masked.push_back(batch.masked_ids[i]);
        }
      }
      sequences.emplace(
          std::vector<int32_t>(batch.token_ids.begin() + begin, batch.token_ids.begin() + end),
          masked);
    }
  }
  return sequences;
}

TEST_CASE("ranks and micro-batches divide the batches of one process among them") {
  Data data;
  PretrainingLoader whole = data.Load();
  data.options.share = {.rank = 0, .num_ranks = 3, .accumulation = 2};
  std::vector<PretrainingLoader> loaders;
  for (int rank = 0; rank < 3; ++rank) {
    data.options.share.rank = rank;
    loaders.push_back(data.Load());
  }
  for (int step = 0; step < 20; ++step) {
    const PretrainingUpdate expected = whole.Next();
    const PretrainingBatch& all = expected.micro_batches[0];
    std::vector<PretrainingBatch> parts;
    int64_t masked = 0;
    for (PretrainingLoader& loader : loaders) {
      const PretrainingUpdate update = loader.Next();
      CHECK(update.global_tokens == all.masked());
      CHECK(update.epoch_samples == expected.epoch_samples);
      CHECK(update.next == expected.next);
      REQUIRE(update.micro_batches.size() == 2);
      for (const PretrainingBatch& batch : update.micro_batches) {
        masked += batch.masked();
        for (const float weight : batch.next_weights) {
          CHECK(weight ==
                Approx(static_cast<double>(all.masked()) / static_cast<double>(all.size())));
        }
        parts.push_back(batch);
      }
    }
    CHECK(masked == all.masked());
    CHECK(SequencesOf(parts) == SequencesOf(expected.micro_batches));
  }
}

TEST_CASE("a loader goes on from where another one stood, and epochs differ") {
  const Data data;
  PretrainingLoader loader = data.Load();
  std::vector<PretrainingUpdate> updates;
  std::vector<DataPosition> starts = {{}};  // of each update, and of the one behind the last
  while (starts.back().epoch < 3) {
    updates.push_back(loader.Next());
    starts.push_back(updates.back().next);
  }
  const auto second = std::find(starts.begin(), starts.end(), DataPosition{.epoch = 1});
  REQUIRE(second != starts.end());
  CHECK(updates[static_cast<size_t>(second - starts.begin())].micro_batches[0].token_ids !=
        updates[0].micro_batches[0].token_ids);
  for (size_t i = 0; i < updates.size(); ++i) {
    PretrainingLoader resumed = data.Load(starts[i]);
    CHECK(resumed.epoch_samples() == updates[i].epoch_samples);
    const PretrainingUpdate update = resumed.Next();
    CHECK(update.micro_batches[0].token_ids == updates[i].micro_batches[0].token_ids);
    CHECK(update.micro_batches[0].masked_rows == updates[i].micro_batches[0].masked_rows);
    CHECK(update.next == updates[i].next);
  }
}

TEST_CASE("an epoch's updates hold each of its examples once") {
  const Data data;
  PretrainingLoader loader = data.Load();
  int64_t samples = 0;
  std::vector<PretrainingBatch> batches;
  for (bool ended = false; !ended;) {
    PretrainingUpdate update = loader.Next();
    samples += update.micro_batches[0].size();
    ended = update.next.epoch > 0;
    CHECK(update.epoch_samples > 16);
    if (ended) CHECK(samples == update.epoch_samples);
    batches.push_back(std::move(update.micro_batches[0]));
  }
  const PretrainingExamples examples(data.shard, data.options.examples, 0);
  REQUIRE(samples == examples.size());
  std::vector<uint32_t> all;
  for (int64_t i = 0; i < samples; ++i) all.push_back(static_cast<uint32_t>(i));
  CHECK(SequencesOf(batches) == SequencesOf({examples.Pack(all, 1.0f)}));
}

TEST_CASE("a loader refuses data that does not go round and places beyond the end") {
  Data data;
  const auto refusal = [&](const DataPosition& start) {
    const Status status = PretrainingLoader::Create(data.shard, data.options, start).status();
    CHECK(status.code() == ExitCode::kData);
    return std::string(status.message());
  };
  CHECK_THAT(refusal({.sample = 100000}), Catch::Contains("cannot continue at sample 100000"));
  data.options.share.num_ranks = 100000;
  CHECK_THAT(refusal({}), Catch::Contains("examples for 100000 ranks"));
}

}  // namespace
}  // namespace dtrain
