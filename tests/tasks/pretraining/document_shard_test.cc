// document_shard_test.cc - documents come back as written, and damage is named.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/document_shard.h"

#include <cstring>
#include <span>

#include "dtrain/base/crc.h"
#include "dtrain/data/internal/shard_format.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

DocumentShardInfo Info(int64_t vocab_size) {
  DocumentShardInfo info{.vocab_size = vocab_size,
                         .vocab_hash = 7,
                         .key = 9,
                         .cls_id = 2,
                         .sep_id = 3,
                         .mask_id = 4,
                         .continues_word = std::vector<uint8_t>(static_cast<size_t>(vocab_size))};
  info.continues_word[11] = 1;
  return info;
}

DocumentShardWriter Writer(const std::string& path, int64_t vocab_size = 1000) {
  StatusOr<DocumentShardWriter> writer = DocumentShardWriter::Create(path, Info(vocab_size));
  REQUIRE(writer.ok());
  return *std::move(writer);
}

// Document d has d + 1 segments; segment s of it is 1 + (d + s) % 5 ids, all of them 10 d + s.
std::string WriteDocuments(const TemporaryFolder& dir, int documents, int64_t vocab_size = 1000) {
  const std::string path = dir.File("train.shard");
  DocumentShardWriter writer = Writer(path, vocab_size);
  for (int d = 0; d < documents; ++d) {
    for (int s = 0; s <= d; ++s) {
      const std::vector<int32_t> ids(static_cast<size_t>(1 + (d + s) % 5), 10 * d + s);
      REQUIRE(writer.AddSegment(ids).ok());
    }
    writer.EndDocument();
    writer.EndDocument();  // one that has nothing is none
  }
  CHECK(writer.documents() == documents);
  REQUIRE(writer.Finish("said by the preparation").ok());
  return path;
}

void CheckDamaged(const std::string& path, const std::string& text,
                  const ShardOpenOptions& options = {}) {
  const Status status = DocumentShard::Open(path, options).status();
  CHECK(status.code() == ExitCode::kData);
  CHECK_THAT(std::string(status.message()), Catch::Contains(path) && Catch::Contains(text));
}

TEST_CASE("a document shard gives back what was written") {
  const TemporaryFolder dir;
  const int64_t vocab_size = GENERATE(1000, 70000);
  const StatusOr<DocumentShard> opened =
      DocumentShard::Open(WriteDocuments(dir, 6, vocab_size), {.vocab_hash = 7});
  REQUIRE(opened.ok());
  const DocumentShard& shard = *opened;
  REQUIRE(shard.documents() == 6);
  CHECK(shard.segments() == 21);
  CHECK(shard.info().vocab_size == vocab_size);
  CHECK(shard.info().key == 9);
  CHECK(shard.info().cls_id == 2);
  CHECK(shard.info().sep_id == 3);
  CHECK(shard.info().mask_id == 4);
  CHECK(shard.info().continues_word == Info(vocab_size).continues_word);
  CHECK(shard.report() == "said by the preparation");
  int64_t begin = 0;
  for (int d = 0; d < 6; ++d) {
    CHECK(shard.token_begin(d) == begin);
    REQUIRE(shard.segment_lengths(d).size() == static_cast<size_t>(d + 1));
    for (int s = 0; s <= d; ++s) {
      const int64_t length = shard.segment_lengths(d)[static_cast<size_t>(s)];
      REQUIRE(length == 1 + (d + s) % 5);
      const TokenView ids = shard.ids(begin, length);
      REQUIRE(ids.size() == length);
      CHECK(ids[0] == 10 * d + s);
      CHECK(ids[length - 1] == 10 * d + s);
      begin += length;
    }
  }
  CHECK(shard.tokens() == begin);
  CHECK_THROWS(shard.ids(begin, 1));
}

TEST_CASE("the last document ends with the shard, and a shard may be empty") {
  const TemporaryFolder dir;
  DocumentShardWriter writer = Writer(dir.File("s"));
  const std::vector<int32_t> ids = {5};
  REQUIRE(writer.AddSegment(ids).ok());
  REQUIRE(writer.Finish("").ok());
  CHECK(DocumentShard::Open(dir.File("s"))->documents() == 1);
  REQUIRE(Writer(dir.File("none")).Finish("").ok());
  CHECK(DocumentShard::Open(dir.File("none"))->documents() == 0);
  CHECK(DocumentShard::Open(dir.File("none"))->tokens() == 0);
}

TEST_CASE("a document shard that is damaged, cut or foreign is named with what to do") {
  const TemporaryFolder dir;
  const std::string path = WriteDocuments(dir, 9);
  const std::string good = ReadTestFile(path);
  CheckDamaged(dir.File("none"), "prepare the data first");
  CheckDamaged(path, "made with another vocabulary", {.vocab_hash = 8});
  WriteTestFile(path, "short");
  CheckDamaged(path, "is not a document shard");
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
}

TEST_CASE("bounds that would lead readers astray are found without the checksum") {
  const TemporaryFolder dir;
  const std::string path = WriteDocuments(dir, 9);
  const std::string good = ReadTestFile(path);
  const DocumentShard shard = *DocumentShard::Open(path);
  // Ids are 2 bytes each; then 45 lengths of segments, padded to 8 bytes.
  const size_t lengths = 128 + (static_cast<size_t>(shard.tokens()) * 2 + 7) / 8 * 8;
  const size_t segment_begins = lengths + 96;
  std::string bad = good;
  bad[lengths] = 0;
  WriteTestFile(path, bad);
  CheckDamaged(path, "segment of document 0", {.verify_checksum = false});
  bad = good;
  bad[lengths + 2] ^= 1;
  WriteTestFile(path, bad);
  CheckDamaged(path, "bounds of document 2", {.verify_checksum = false});
  bad = good;
  bad[segment_begins + 8] = 100;
  WriteTestFile(path, bad);
  CheckDamaged(path, "bounds of document 0", {.verify_checksum = false});
}

// The bytes of a shard with a changed header and right checksums.
std::string Resealed(std::string bytes, void (*change)(internal::DocumentHeader&)) {
  internal::DocumentHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  change(header);
  internal::Seal(Crc32c(std::as_bytes(std::span(bytes)).subspan(sizeof(header))), header);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

TEST_CASE("ids outside of the vocabulary are found even where the checksums are right") {
  const TemporaryFolder dir;
  for (const int64_t vocab_size : {1000, 70000}) {
    const std::string path = WriteDocuments(dir, 9, vocab_size);
    std::string bytes = ReadTestFile(path);
    bytes[128 + (vocab_size == 1000 ? 1 : 3)] = '\x7f';
    WriteTestFile(path, Resealed(bytes, [](internal::DocumentHeader&) {}));
    CheckDamaged(path, "ids outside of the vocabulary");
  }
}

TEST_CASE("counts that no file of its size holds are found, as large as they may be") {
  using Header = internal::DocumentHeader;
  const TemporaryFolder dir;
  const std::string path = WriteDocuments(dir, 9);
  const std::string good = ReadTestFile(path);
  const auto refused = [&](const std::string& why, void (*change)(Header&)) {
    WriteTestFile(path, Resealed(good, change));
    CheckDamaged(path, why);
  };
  refused("counts of the header", [](Header& h) { h.documents = -1; });
  refused("counts of the header", [](Header& h) { h.documents = INT64_MAX; });
  refused("counts of the header", [](Header& h) { h.tokens = INT64_MAX; });
  refused("counts of the header", [](Header& h) { h.segments = -8; });
  refused("in the header", [](Header& h) { h.segments += 8; });
  refused("vocabulary of the header", [](Header& h) { h.start.id_bytes = 3; });
  refused("special tokens", [](Header& h) { h.mask_id = 1000; });
}

TEST_CASE("a document shard refuses what it cannot hold") {
  const TemporaryFolder dir;
  DocumentShardWriter writer = Writer(dir.File("s"));
  CHECK_THROWS(writer.AddSegment({}));
  CHECK_THROWS(writer.AddSegment(std::vector<int32_t>(65536)));
  CHECK_THROWS(writer.AddSegment(std::vector<int32_t>{1000}));
  CHECK_THROWS(DocumentShardWriter::Create(dir.File("t"), {.vocab_size = 10}));
  CHECK(DocumentShardWriter::Create("/nowhere/s", Info(100)).status().code() == ExitCode::kStorage);
}

}  // namespace
}  // namespace dtrain
