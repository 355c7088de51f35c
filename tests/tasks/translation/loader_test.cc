// loader_test.cc - packed batches, equal steps on all ranks, and continuing where a run stopped.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/loader.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "data/test_files.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

TokenShard MakeShard(const TemporaryFolder& dir, int pairs) {
  const std::string path = dir.File("train.bin");
  StatusOr<TokenShardWriter> writer = TokenShardWriter::Create(path, {.vocab_size = 1000});
  REQUIRE(writer.ok());
  for (int i = 0; i < pairs; ++i) {
    const std::vector<int32_t> source(static_cast<size_t>(1 + i % 7), 2 + i);
    const std::vector<int32_t> target(static_cast<size_t>(1 + i % 5), 3 + i);
    REQUIRE(writer->Add(source, target).ok());
  }
  REQUIRE(writer->Finish().ok());
  StatusOr<TokenShard> shard = TokenShard::Open(path);
  REQUIRE(shard.ok());
  return *std::move(shard);
}

LoaderOptions Options(int rank = 0, int num_ranks = 1, int accumulation = 1) {
  return {.batch = {.tokens_per_batch = 60},
          .ids = {.eos_id = 1, .start_id = 999},
          .rank = rank,
          .num_ranks = num_ranks,
          .accumulation = accumulation};
}

// Sample sets of the updates of one epoch, all ranks together.
std::vector<std::set<int64_t>> Updates(const TokenShard& shard, int num_ranks, int accumulation,
                                       const DataPosition& start = {}) {
  std::vector<std::set<int64_t>> updates;
  for (int rank = 0; rank < num_ranks; ++rank) {
    BatchLoader loader = *BatchLoader::Create(shard, Options(rank, num_ranks, accumulation), start);
    for (size_t step = 0;; ++step) {
      if (rank == 0) updates.emplace_back();
      const LoadedBatch batch = loader.Next();
      REQUIRE(batch.micro_batches.size() == static_cast<size_t>(accumulation));
      for (const PairBatch& micro : batch.micro_batches) {
        for (const int64_t i : micro.sample_indices) {
          REQUIRE(updates.at(step).insert(i).second);  // no sample twice
        }
      }
      if (batch.next.epoch == start.epoch) continue;
      REQUIRE(step + 1 == updates.size());  // as many steps on every rank
      break;
    }
  }
  return updates;
}

TEST_CASE("pairs are packed with start and end symbols") {
  const TemporaryFolder dir;
  const TokenShard shard = MakeShard(dir, 10);
  const std::vector<uint32_t> samples = {2, 0};
  const PairBatch batch = PackPairs(shard, samples, {.eos_id = 1, .start_id = 999});
  CHECK(batch.source_ids == std::vector<int32_t>{4, 4, 4, 1, 2, 1});
  CHECK(batch.source.offsets() == std::vector<int32_t>{0, 4, 6});
  CHECK(batch.decoder_ids == std::vector<int32_t>{999, 5, 5, 5, 999, 3});
  CHECK(batch.target_ids == std::vector<int32_t>{5, 5, 5, 1, 3, 1});
  CHECK(batch.target.offsets() == std::vector<int32_t>{0, 4, 6});
  CHECK(batch.sample_indices == std::vector<int64_t>{2, 0});
  const PairBatch empty = PackPairs(shard, {}, {});
  CHECK(empty.size() == 0);
  CHECK(empty.source.tokens() == 0);
}

TEST_CASE("updates hold the same samples for any number of ranks and micro-batches") {
  const TemporaryFolder dir;
  const TokenShard shard = MakeShard(dir, 101);
  const auto updates = Updates(shard, 1, 1);
  CHECK(updates == Updates(shard, 2, 1));
  CHECK(updates == Updates(shard, 1, 3));
  CHECK(updates == Updates(shard, 4, 2));
  size_t samples = 0;
  for (const auto& update : updates) samples += update.size();
  CHECK(samples == 101);
}

TEST_CASE(
    "each token of an update has a number, the same for any number of ranks and micro-batches") {
  const TemporaryFolder dir;
  const TokenShard shard = MakeShard(dir, 101);
  // Of the second update: the numbers of each pair's first tokens, and all numbers.
  struct Numbers {
    std::map<int64_t, std::pair<int32_t, int32_t>> of_pairs;
    std::vector<int32_t> source, target;
  };
  const auto number = [&](int ranks, int accumulation) {
    Numbers numbers;
    for (int rank = 0; rank < ranks; ++rank) {
      LoaderOptions options = Options();
      options.rank = rank;
      options.num_ranks = ranks;
      options.accumulation = accumulation;
      BatchLoader loader = *BatchLoader::Create(shard, options);
      loader.Next();
      const LoadedBatch batch = loader.Next();
      for (const PairBatch& micro : batch.micro_batches) {
        for (size_t i = 0; i < micro.sample_indices.size(); ++i) {
          numbers.of_pairs[micro.sample_indices[i]] = {micro.source.first_numbers()[i],
                                                       micro.target.first_numbers()[i]};
        }
        const auto add = [](const Sequences& from, std::vector<int32_t>& to) {
          const std::vector<int32_t> rows = from.NumberRows();
          CHECK(static_cast<int64_t>(rows.size()) == from.tokens());
          to.insert(to.end(), rows.begin(), rows.end());
        };
        add(micro.source, numbers.source);
        add(micro.target, numbers.target);
      }
    }
    for (std::vector<int32_t>* all : {&numbers.source, &numbers.target}) {
      std::sort(all->begin(), all->end());
      std::vector<int32_t> counted(all->size());
      std::iota(counted.begin(), counted.end(), 0);
      CHECK(*all == counted);
    }
    return numbers;
  };
  const Numbers whole = number(1, 1);
  CHECK(whole.of_pairs.size() > 2);
  // More parts than pairs, too.
  for (const auto& [ranks, accumulation] : {std::pair{1, 3}, {2, 1}, {4, 2}, {5, 20}}) {
    INFO(ranks << " ranks, " << accumulation << " micro-batches");
    CHECK(number(ranks, accumulation).of_pairs == whole.of_pairs);
  }
}

TEST_CASE("a run continues at its cursor on another number of ranks") {
  const TemporaryFolder dir;
  const TokenShard shard = MakeShard(dir, 101);
  const auto updates = Updates(shard, 2, 1);
  BatchLoader loader = *BatchLoader::Create(shard, Options());
  loader.Next();
  const DataPosition cursor = loader.Next().next;
  CHECK(Updates(shard, 3, 1, cursor) ==
        std::vector<std::set<int64_t>>(updates.begin() + 2, updates.end()));
}

// 90 pairs of one source, and 10 of another that is as heavy.
TokenShard MakeMix(const TemporaryFolder& dir) {
  const std::string path = dir.File("mix.bin");
  StatusOr<TokenShardWriter> writer = TokenShardWriter::Create(path, {.vocab_size = 1000});
  REQUIRE(writer.ok());
  for (int i = 0; i < 100; ++i) {
    if (i == 0 || i == 90) writer->BeginSource(2.5);
    const std::vector<int32_t> source(static_cast<size_t>(1 + i % 7), 2 + i);
    const std::vector<int32_t> target(static_cast<size_t>(1 + i % 5), 3 + i);
    REQUIRE(writer->Add(source, target).ok());
  }
  REQUIRE(writer->Finish().ok());
  StatusOr<TokenShard> shard = TokenShard::Open(path);
  REQUIRE(shard.ok());
  return *std::move(shard);
}

// The pairs of each update of an epoch, all ranks together: index, and number of the first token.
using NumberedPairs = std::vector<std::pair<int64_t, int32_t>>;
std::vector<NumberedPairs> UpdatesOfMix(const TokenShard& shard, const DataPosition& start,
                                        int num_ranks, int accumulation) {
  std::vector<NumberedPairs> updates;
  for (int rank = 0; rank < num_ranks; ++rank) {
    BatchLoader loader = *BatchLoader::Create(shard, Options(rank, num_ranks, accumulation), start);
    LoadedBatch batch;
    for (size_t step = 0; batch.next.epoch == 0; ++step) {
      if (rank == 0) updates.emplace_back();
      batch = loader.Next();
      for (const PairBatch& micro : batch.micro_batches) {
        for (size_t i = 0; i < micro.sample_indices.size(); ++i) {
          updates.at(step).emplace_back(micro.sample_indices[i], micro.source.first_numbers()[i]);
        }
      }
    }
  }
  for (NumberedPairs& update : updates) std::sort(update.begin(), update.end());
  return updates;
}

TEST_CASE("sources are mixed by weight, the same for any number of ranks and after any stop") {
  const TemporaryFolder dir;
  const TokenShard shard = MakeMix(dir);
  const std::vector<NumberedPairs> updates = UpdatesOfMix(shard, {}, 1, 1);
  CHECK(updates == UpdatesOfMix(shard, {}, 2, 1));
  CHECK(updates == UpdatesOfMix(shard, {}, 3, 2));
  int64_t pairs = 0;
  int64_t heavy = 0;
  bool has_twice = false;
  for (const NumberedPairs& update : updates) {
    std::set<int64_t> indices;
    std::set<int32_t> numbers;
    for (const auto& [index, number] : update) {
      ++pairs;
      heavy += index >= 90 ? 1 : 0;
      has_twice = has_twice || !indices.insert(index).second;
      CHECK(numbers.insert(number).second);  // of a pair that is there twice, too
    }
  }
  CHECK(pairs == 100);
  CHECK(heavy == 50);
  REQUIRE(has_twice);
  BatchLoader loader = *BatchLoader::Create(shard, Options());
  loader.Next();
  const DataPosition cursor = loader.Next().next;
  CHECK(UpdatesOfMix(shard, cursor, 3, 1) ==
        std::vector<NumberedPairs>(updates.begin() + 2, updates.end()));
}

TEST_CASE("an epoch has all tokens once, and another epoch follows it") {
  const TemporaryFolder dir;
  const TokenShard shard = MakeShard(dir, 31);
  BatchLoader loader = *BatchLoader::Create(shard, Options());
  int64_t source_tokens = 0;
  int64_t target_tokens = 0;
  int64_t pairs = 0;
  DataPosition next;
  while (next.epoch == 0) {
    const LoadedBatch batch = loader.Next();
    source_tokens += batch.micro_batches[0].source.tokens();
    target_tokens += batch.micro_batches[0].target.tokens();
    CHECK(batch.global_tokens == batch.micro_batches[0].target.tokens());
    pairs += batch.micro_batches[0].size();
    next = batch.next;
    if (next.epoch == 0) CHECK(next.sample == pairs);
  }
  CHECK(source_tokens == shard.source_tokens() + 31);
  CHECK(target_tokens == shard.target_tokens() + 31);
  CHECK(next == DataPosition{.epoch = 1, .sample = 0});
  const LoadedBatch second = loader.Next();
  CHECK(second.next == DataPosition{.epoch = 1,
                                    .sample = second.micro_batches[0].size(),
                                    .order = SampleOrderOf(Options().batch)});
}

TEST_CASE("a tail smaller than the number of ranks leaves some with an empty micro-batch") {
  const TemporaryFolder dir;
  const TokenShard shard = MakeShard(dir, 4);
  LoaderOptions options = Options(3, 4, 2);
  BatchLoader loader = *BatchLoader::Create(shard, options);
  const LoadedBatch batch = loader.Next();
  CHECK(batch.micro_batches[0].size() == 1);
  CHECK(batch.micro_batches[1].size() == 0);
}

TEST_CASE("too few pairs or a foreign cursor are data errors") {
  const TemporaryFolder dir;
  const TokenShard shard = MakeShard(dir, 3);
  const Status few = BatchLoader::Create(shard, Options(0, 4)).status();
  CHECK(few.code() == ExitCode::kData);
  CHECK_THAT(std::string(few.message()),
             Catch::Contains("train.bin: 3 sentence pairs for 4 ranks"));
  const Status beyond = BatchLoader::Create(shard, Options(), {.sample = 3}).status();
  CHECK(beyond.code() == ExitCode::kData);
  CHECK_THAT(std::string(beyond.message()), Catch::Contains("sample 3 of epoch 0"));
}

}  // namespace
}  // namespace dtrain
