// classification_shard_test.cc - what is written comes back, damage is named, ranks share batches.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/classification_shard.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "dtrain/tasks/classification/loader.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

ClassificationShardWriter Writer(const std::string& path, const ClassificationShardInfo& info) {
  StatusOr<ClassificationShardWriter> writer = ClassificationShardWriter::Create(path, info);
  REQUIRE(writer.ok());
  return *std::move(writer);
}

// Row i: 2 + i % 7 ids of which the first 2 + i % 3 (at most all) are of the first text.
std::string WriteRows(const TemporaryFolder& dir, int rows, int64_t vocab_size = 1000) {
  const std::string path = dir.File("train.shard");
  ClassificationShardWriter writer = Writer(
      path, {.vocab_size = vocab_size, .vocab_hash = 7, .key = 9, .label_names = {"a", "b"}});
  for (int i = 0; i < rows; ++i) {
    const std::vector<int32_t> ids(static_cast<size_t>(2 + i % 7), i % 1000);
    const float label = static_cast<float>(i % 2);
    const std::string name = "id" + std::to_string(i);
    REQUIRE(writer
                .Add({.ids = ids,
                      .first_length = std::min(2 + i % 3, 2 + i % 7),
                      .labels = {&label, 1},
                      .weight = 1.0f + static_cast<float>(i),
                      .groups = static_cast<uint32_t>(i),
                      .row = i + 1,
                      .name = name})
                .ok());
  }
  REQUIRE(writer.Finish("said by the preparation").ok());
  return path;
}

ClassificationShard Open(const std::string& path) {
  StatusOr<ClassificationShard> shard = ClassificationShard::Open(path);
  REQUIRE(shard.ok());
  return *std::move(shard);
}

void CheckDamaged(const std::string& path, const std::string& text,
                  const ShardOpenOptions& options = {}) {
  const Status status = ClassificationShard::Open(path, options).status();
  CHECK(status.code() == ExitCode::kData);
  CHECK_THAT(std::string(status.message()), Catch::Contains(path));
  CHECK_THAT(std::string(status.message()), Catch::Contains(text));
}

TEST_CASE("a classification shard gives back what was written") {
  const TemporaryFolder dir;
  const int64_t vocab_size = GENERATE(1000, 70000);
  const ClassificationShard shard = Open(WriteRows(dir, 20, vocab_size));
  REQUIRE(shard.size() == 20);
  CHECK(shard.info().vocab_size == vocab_size);
  CHECK(shard.info().vocab_hash == 7);
  CHECK(shard.info().key == 9);
  CHECK(shard.info().label_names == std::vector<std::string>{"a", "b"});
  CHECK(shard.report() == "said by the preparation");
  int64_t tokens = 0;
  for (int64_t i = 0; i < 20; ++i) {
    const TokenView ids = shard.ids(i);
    REQUIRE(ids.size() == 2 + i % 7);
    CHECK(ids[0] == i);
    CHECK(ids[ids.size() - 1] == i);
    CHECK(shard.first_length(i) == std::min(2 + i % 3, 2 + i % 7));
    CHECK(shard.labels(i)[0] == static_cast<float>(i % 2));
    CHECK(shard.weight(i) == 1.0f + static_cast<float>(i));
    CHECK(shard.groups(i) == static_cast<uint32_t>(i));
    CHECK(shard.row(i) == i + 1);
    CHECK(shard.name(i) == "id" + std::to_string(i));
    tokens += ids.size();
  }
  CHECK(shard.tokens() == tokens);
}

TEST_CASE("classes are named and weights normalised when all rows are known") {
  const TemporaryFolder dir;
  ClassificationShardWriter writer = Writer(dir.File("s"), {.vocab_size = 10});
  const std::vector<int32_t> ids = {1, 2};
  for (const float label : {0.0f, 1.0f, kNone}) {
    REQUIRE(writer.Add({.ids = ids, .first_length = 2, .labels = {&label, 1}, .weight = 1 + label})
                .ok());
  }
  const std::vector<int32_t> order = {1, 0};
  writer.SetClasses({"no", "yes"}, order);
  REQUIRE(writer.Finish("").ok());
  const ClassificationShard shard = Open(dir.File("s"));
  CHECK(shard.labels(0)[0] == 1.0f);
  CHECK(shard.labels(1)[0] == 0.0f);
  CHECK(std::isnan(shard.labels(2)[0]));
  CHECK(shard.info().label_names == std::vector<std::string>{"no", "yes"});

  ClassificationShardWriter weighted = Writer(dir.File("w"), {.vocab_size = 10});
  const float label = 0.0f;
  for (const float weight : {0.25f, 0.75f}) {
    REQUIRE(weighted.Add({.ids = ids, .labels = {&label, 1}, .weight = weight}).ok());
  }
  weighted.NormalizeWeights();
  REQUIRE(weighted.Finish("").ok());
  CHECK(Open(dir.File("w")).weight(0) == 0.5f);
  CHECK(Open(dir.File("w")).weight(1) == 1.5f);
}

TEST_CASE("texts are packed with types and positions") {
  const TemporaryFolder dir;
  const ClassificationShard shard = Open(WriteRows(dir, 10));
  const std::vector<uint32_t> samples = {4, 0};
  const ClassificationBatch batch = PackExamples(shard, samples);
  CHECK(batch.token_ids == std::vector<int32_t>{4, 4, 4, 4, 4, 4, 0, 0});
  CHECK(batch.type_ids == std::vector<int32_t>{0, 0, 0, 1, 1, 1, 0, 0});
  CHECK(batch.position_ids == std::vector<int32_t>{0, 1, 2, 3, 4, 5, 0, 1});
  CHECK(batch.sequences.offsets() == std::vector<int32_t>{0, 6, 8});
  CHECK(batch.labels == std::vector<float>{0, 0});
  CHECK(batch.weights == std::vector<float>{5, 1});
  CHECK(batch.rows == std::vector<int64_t>{4, 0});
  CHECK(PackExamples(shard, {}).size() == 0);
}

TEST_CASE("a classification shard that is damaged, cut or foreign is named with what to do") {
  const TemporaryFolder dir;
  const std::string path = WriteRows(dir, 50);
  const std::string good = ReadTestFile(path);
  CheckDamaged(dir.File("none"), "prepare the data first");
  WriteTestFile(path, "short");
  CheckDamaged(path, "is not a classification shard");
  WriteTestFile(path, "DTSHARD\n" + good.substr(8));
  CheckDamaged(path, "is not a classification shard");
  std::string bad = good;
  bad[8] = 9;
  WriteTestFile(path, bad);
  CheckDamaged(path, "version 9, this program reads version 1");
  bad = good;
  bad[40] ^= 1;
  WriteTestFile(path, bad);
  CheckDamaged(path, "checksum of the header");
  WriteTestFile(path, good.substr(0, good.size() - 8));
  CheckDamaged(path, "bytes instead of the");
  bad = good;
  bad[200] ^= 1;
  WriteTestFile(path, bad);
  CheckDamaged(path, "checksum of the content");
  CHECK(ClassificationShard::Open(path, {.verify_checksum = false}).ok());
  WriteTestFile(path, good);
  CheckDamaged(path, "made with another vocabulary", {.vocab_hash = 8});
}

TEST_CASE("a writer that is not finished leaves nothing") {
  const TemporaryFolder dir;
  { ClassificationShardWriter writer = Writer(dir.File("s"), {.vocab_size = 10}); }
  CHECK(std::filesystem::is_empty(dir.path()));
}

// Sample sets of the updates of one epoch, all ranks together.
std::vector<std::set<int64_t>> Updates(const ClassificationShard& shard, const BatchOptions& batch,
                                       int num_ranks, int accumulation,
                                       const DataPosition& start = {}) {
  std::vector<std::set<int64_t>> updates;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const ClassificationLoaderOptions options{.batch = batch,
                                              .share = {rank, num_ranks, accumulation}};
    ClassificationLoader loader = *ClassificationLoader::Create(shard, options, start);
    for (size_t step = 0;; ++step) {
      if (rank == 0) updates.emplace_back();
      const ClassificationUpdate update = loader.Next();
      REQUIRE(update.micro_batches.size() == static_cast<size_t>(accumulation));
      for (const ClassificationBatch& micro : update.micro_batches) {
        for (const int64_t i : micro.rows) REQUIRE(updates.at(step).insert(i).second);
      }
      if (update.next.epoch == start.epoch) continue;
      REQUIRE(step + 1 == updates.size());  // as many steps on every rank
      break;
    }
  }
  return updates;
}

TEST_CASE("updates of texts are the same for any number of ranks and resume anywhere") {
  const TemporaryFolder dir;
  const ClassificationShard shard = Open(WriteRows(dir, 101));
  const BatchOptions batch =
      GENERATE(BatchOptions{.samples_per_batch = 32}, BatchOptions{.tokens_per_batch = 60},
               BatchOptions{.tokens_per_batch = 60, .length_window = 40});
  const auto updates = Updates(shard, batch, 1, 1);
  CHECK(updates == Updates(shard, batch, 3, 1));
  CHECK(updates == Updates(shard, batch, 2, 2));
  size_t samples = 0;
  for (const auto& update : updates) samples += update.size();
  CHECK(samples == 101);
  const auto first = static_cast<int64_t>(updates[0].size());
  CHECK(Updates(shard, batch, 4, 1, {.sample = first}) ==
        std::vector<std::set<int64_t>>(updates.begin() + 1, updates.end()));
}

TEST_CASE("an epoch has all texts once, with their tokens and weights") {
  const TemporaryFolder dir;
  const ClassificationShard shard = Open(WriteRows(dir, 40));
  ClassificationLoader loader =
      *ClassificationLoader::Create(shard, {.batch = {.samples_per_batch = 32}});
  const ClassificationUpdate first = loader.Next();
  const ClassificationUpdate last = loader.Next();
  CHECK(first.next == DataPosition{.sample = 32, .order = SampleOrderOf({})});
  CHECK(last.next == DataPosition{.epoch = 1});
  int64_t rows = 0;
  int64_t tokens = 0;
  float weight = 0.0f;
  for (const ClassificationUpdate* update : {&first, &last}) {
    const ClassificationBatch& batch = update->micro_batches[0];
    rows += batch.size();
    tokens += batch.sequences.tokens();
    weight = std::accumulate(batch.weights.begin(), batch.weights.end(), weight);
  }
  CHECK(rows == 40);
  CHECK(tokens == shard.tokens());
  CHECK(weight == 820.0f);  // 1 + 2 + ... + 40
}

TEST_CASE("too few texts or a foreign cursor are data errors") {
  const TemporaryFolder dir;
  const ClassificationShard shard = Open(WriteRows(dir, 3));
  const Status few = ClassificationLoader::Create(shard, {.share = {.num_ranks = 4}}).status();
  CHECK(few.code() == ExitCode::kData);
  CHECK_THAT(std::string(few.message()), Catch::Contains("train.shard: 3 texts for 4 ranks"));
  const Status beyond = ClassificationLoader::Create(shard, {}, {.sample = 3}).status();
  CHECK(beyond.code() == ExitCode::kData);
  CHECK_THAT(std::string(beyond.message()), Catch::Contains("sample 3 of epoch 0"));
}

}  // namespace
}  // namespace dtrain
