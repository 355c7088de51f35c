// token_shard_test.cc - shards come back as written; foreign and damaged ones are refused.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/token_shard.h"

#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "data/test_files.h"
#include "dtrain/base/check.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using Ids = std::vector<int32_t>;

constexpr TokenShardInfo kInfo = {.vocab_size = 50'000, .vocab_hash = 0xABC, .options_hash = 7};

Ids MakeIds(int64_t length, int32_t first) {
  Ids ids(static_cast<size_t>(length));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

std::string WriteShard(const TemporaryFolder& dir, const TokenShardInfo& info = kInfo,
                       int pairs = 100) {
  const std::string path = dir.File("train.bin");
  StatusOr<TokenShardWriter> writer = TokenShardWriter::Create(path, info);
  REQUIRE(writer.ok());
  const auto first = static_cast<int32_t>(info.vocab_size) - 200;
  for (int i = 0; i < pairs; ++i) {
    REQUIRE(writer->Add(MakeIds(i % 7, first + i), MakeIds(i % 5 + 1, i)).ok());
  }
  CHECK_FALSE(std::filesystem::exists(path));
  REQUIRE(writer->Finish().ok());
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    CHECK_FALSE(entry.path().filename().string().starts_with(".tmp"));
  }
  return path;
}

void CheckRefused(const std::string& path, const std::string& part,
                  const ShardOpenOptions& options = {}) {
  const Status status = TokenShard::Open(path, options).status();
  CHECK(status.code() == ExitCode::kData);
  CHECK_THAT(std::string(status.message()), Catch::Contains(path) && Catch::Contains(part));
}

TEST_CASE("a token shard gives back its pairs, with narrow and with wide ids") {
  const int64_t vocab_size = GENERATE(50'000, 65'536, 100'000);
  const TemporaryFolder dir;
  TokenShardInfo info = kInfo;
  info.vocab_size = vocab_size;
  StatusOr<TokenShard> shard = TokenShard::Open(WriteShard(dir, info), {.vocab_hash = 0xABC});
  REQUIRE(shard.ok());
  REQUIRE(shard->size() == 100);
  CHECK(shard->info().vocab_size == vocab_size);
  CHECK(shard->info().options_hash == 7);
  const auto first = static_cast<int32_t>(vocab_size) - 200;
  int64_t source_tokens = 0;
  for (int i = 0; i < 100; ++i) {
    Ids source;
    Ids target;
    shard->AppendSource(i, source);
    shard->AppendTarget(i, target);
    REQUIRE(source == MakeIds(i % 7, first + i));
    REQUIRE(target == MakeIds(i % 5 + 1, i));
    REQUIRE(shard->source_length(i) == i % 7);
    REQUIRE(shard->target_lengths()[static_cast<size_t>(i)] == i % 5 + 1);
    source_tokens += i % 7;
  }
  CHECK(shard->source_tokens() == source_tokens);
  CHECK(shard->Target(3)[1] == 4);
}

TEST_CASE("a token shard may be empty") {
  const TemporaryFolder dir;
  StatusOr<TokenShard> shard = TokenShard::Open(WriteShard(dir, kInfo, 0));
  REQUIRE(shard.ok());
  CHECK(shard->size() == 0);
}

TEST_CASE("an unfinished shard leaves nothing behind and a full disk is a storage error") {
  const TemporaryFolder dir;
  {
    StatusOr<TokenShardWriter> writer = TokenShardWriter::Create(dir.File("a"), kInfo);
    REQUIRE(writer.ok());
    CHECK_THROWS_AS(writer->Add(Ids{50'000}, Ids{1}), CheckError);
  }
  CHECK(std::filesystem::is_empty(dir.path()));
  const Status status = TokenShardWriter::Create(dir.File("no/such/a"), kInfo).status();
  CHECK(status.code() == ExitCode::kStorage);
  CHECK_THAT(std::string(status.message()), Catch::Contains("no/such/a"));
  const FileSizeLimit limit(16);
  StatusOr<TokenShardWriter> writer = TokenShardWriter::Create(dir.File("full"), kInfo);
  REQUIRE(writer.ok());
  REQUIRE(writer->Add(Ids{1}, Ids{2}).ok());
  const Status full = writer->Finish();
  CHECK(full.code() == ExitCode::kStorage);
  CHECK_THAT(std::string(full.message()), Catch::Contains("raise the limit on file sizes"));
}

TEST_CASE("files that are no shard of this vocabulary are refused") {
  const TemporaryFolder dir;
  CheckRefused(dir.File("missing"),
               "cannot open: No such file or directory; check the path; prepare the data first");
  CheckRefused(dir.path(), "not a regular file");
  CheckRefused(dir.Write("short", "tiny"), "is not a token shard");
  CheckRefused(dir.Write("foreign", std::string(4096, 'x')), "is not a token shard");
  CheckRefused(WriteShard(dir),
               "another vocabulary (hash 0000000000000abc, this run's is "
               "0000000000000def)",
               {.vocab_hash = 0xDEF});
}

TEST_CASE("a shard has the sources of its pairs, if there are several") {
  const TemporaryFolder dir;
  const auto write = [&](const std::vector<SampleSource>& sources) {
    StatusOr<TokenShardWriter> writer = TokenShardWriter::Create(dir.File("mix"), kInfo);
    REQUIRE(writer.ok());
    for (const SampleSource& source : sources) {
      writer->BeginSource(source.weight);
      for (int64_t i = 0; i < source.samples; ++i) REQUIRE(writer->Add(Ids{1, 2}, Ids{3}).ok());
    }
    REQUIRE(writer->Finish().ok());
    return dir.File("mix");
  };
  const std::vector<SampleSource> sources = {{2, 0.5}, {5, 3.0}, {1, 1.0}};
  const std::string path = write(sources);
  const StatusOr<TokenShard> shard = TokenShard::Open(path);
  REQUIRE(shard.ok());
  CHECK(shard->size() == 8);
  CHECK(std::vector<SampleSource>(shard->sources().begin(), shard->sources().end()) == sources);
  const uint32_t crc = shard->content_crc();
  std::string bad = ReadTestFile(path);
  bad[bad.size() - 16] = 2;  // pairs of the last source
  CheckRefused(dir.Write("more", bad), "sources of its pairs", {.verify_checksum = false});
  bad[bad.size() - 16] = 1;
  bad[bad.size() - 1] |= '\x80';  // sign of its weight
  CheckRefused(dir.Write("sign", bad), "sources of its pairs", {.verify_checksum = false});
  // Other weights are other content.
  CHECK(TokenShard::Open(write({{2, 0.5}, {5, 2.0}, {1, 1.0}}))->content_crc() != crc);
  CHECK(TokenShard::Open(write({{8, 0.5}}))->sources().empty());
  // A source without a pair is a mistake of the program.
  StatusOr<TokenShardWriter> empty = TokenShardWriter::Create(dir.File("empty"), kInfo);
  REQUIRE(empty.ok());
  empty->BeginSource(1.0);
  REQUIRE(empty->Add(Ids{1}, Ids{2}).ok());
  empty->BeginSource(1.0);
  CHECK_THROWS_AS(empty->Finish(), CheckError);
}

TEST_CASE("damaged shards are refused") {
  const TemporaryFolder dir;
  const std::string good = ReadTestFile(WriteShard(dir));
  CheckRefused(dir.Write("cut", good.substr(0, good.size() - 8)), "in the header");
  CheckRefused(dir.Write("long", good + "12345678"), "in the header");
  std::string bad = good;
  bad[8] = 9;
  CheckRefused(dir.Write("version", bad), "version 9");
  bad = good;
  bad[48] ^= 1;  // number of pairs
  CheckRefused(dir.Write("header", bad), "checksum of the header");
  bad = good;
  bad[good.size() - 5] ^= 1;  // a target length
  CheckRefused(dir.Write("lengths", bad), "lengths of pair", {.verify_checksum = false});
  bad = good;
  bad[130] ^= 1;  // an id
  const std::string path = dir.Write("ids", bad);
  CheckRefused(path, "checksum of the content");
  CHECK(TokenShard::Open(path, {.verify_checksum = false}).ok());
}

}  // namespace
}  // namespace dtrain
