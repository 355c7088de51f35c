// prepare_test.cc - text becomes documents of segments, once, in any file and format.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/prepare.h"

#include <filesystem>
#include <numeric>
#include <set>

#include "data/test_files.h"
#include "dtrain/tasks/pretraining/document_shard.h"
#include "dtrain/tasks/pretraining/examples.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using Segments = std::vector<std::vector<int32_t>>;
using Documents = std::vector<Segments>;

// a to e are 5 to 9, ##s is 10, the full stop 11.
WordPieceTokenizer Tokenizer(const std::string& mask = "[MASK]",
                             const WordPieceOptions& options = {}) {
  StatusOr<WordPieceTokenizer> tokenizer = WordPieceTokenizer::FromVocabulary(
      {"[PAD]", "[UNK]", "[CLS]", "[SEP]", mask, "a", "b", "c", "d", "e", "##s", "."}, options);
  REQUIRE(tokenizer.ok());
  return *std::move(tokenizer);
}

struct Data {
  explicit Data(const std::string& text = "a bs. C\nd\n\ne a\n") {
    input = {.name = "train", .paths = {dir.Write("a.txt", text)}, .cache_dir = dir.File("cache")};
  }
  DocumentsReport Prepare() const {
    StatusOr<DocumentsReport> report = PrepareDocuments(input, tokenizer);
    INFO(report.status().message());
    REQUIRE(report.ok());
    return *std::move(report);
  }
  void CheckRefused(ExitCode code, const std::string& part) const {
    const Status status = PrepareDocuments(input, tokenizer).status();
    CHECK(status.code() == code);
    CHECK_THAT(std::string(status.message()), Catch::Contains(part));
  }
  TemporaryFolder dir;
  DocumentsInput input;
  WordPieceTokenizer tokenizer = Tokenizer();
};

Documents Read(const std::string& path) {
  const StatusOr<DocumentShard> shard = DocumentShard::Open(path);
  REQUIRE(shard.ok());
  Documents documents;
  for (int64_t d = 0; d < shard->documents(); ++d) {
    Segments& segments = documents.emplace_back();
    int64_t begin = shard->token_begin(d);
    for (const uint16_t length : shard->segment_lengths(d)) {
      const TokenView ids = shard->ids(begin, length);
      std::vector<int32_t>& segment = segments.emplace_back();
      for (int64_t i = 0; i < length; ++i) segment.push_back(ids[i]);
      begin += length;
    }
  }
  return documents;
}

TEST_CASE("lines become segments, and empty lines and files end documents") {
  Data data("a bs. C\nd\n\n \t\ne a\n");
  data.input.paths.push_back(data.dir.Write("b.txt", "\nb\n[MASK]"));
  const DocumentsReport report = data.Prepare();
  CHECK_FALSE(report.reused);
  CHECK(Read(report.shard_path) ==
        Documents{{{5, 6, 10, 11}, {7}, {8}}, {{9, 5}}, {{6}, {1, 1, 1}}});
  CHECK(report.lines == 5);
  CHECK(report.kept.documents == 3);
  CHECK(report.kept.segments == 6);
  CHECK(report.kept.tokens == 12);
  CHECK(report.held_out_path.empty());
  CHECK_THAT(report.Describe(),
             Catch::Contains("train: 3 documents, 6 segments, 12 tokens (2.0 a segment) of 5"));
  const DocumentShard shard = *DocumentShard::Open(report.shard_path);
  CHECK(shard.info().vocab_hash == data.tokenizer.Hash());
  CHECK(shard.info().cls_id == 2);
  CHECK(shard.info().sep_id == 3);
  CHECK(shard.info().mask_id == 4);
  CHECK(shard.info().continues_word == std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0});

  data.input.split_sentences = false;
  CHECK(Read(data.Prepare().shard_path)[0] == Segments{{5, 6, 10, 11, 7}, {8}});
}

TEST_CASE("a line of spaces beyond ASCII ends a document too") {
  Data data("a\n\xC2\xA0\nb\n \xE3\x80\x80 \nc\n");
  for (const bool split : {true, false}) {
    data.input.split_sentences = split;
    CHECK(Read(data.Prepare().shard_path) == Documents{{{5}}, {{6}}, {{7}}});
  }
}

TEST_CASE("a line of what the tokenizer drops is no segment and ends no document") {
  const std::string dropped = "\xE2\x80\x8B\n\x01\n\xE2\x80\x83\n\xEF\xBB\xBF\n";
  Data data("a\n" + dropped + "b\n\n" + dropped + "\nc\n");
  for (const bool split : {true, false}) {
    data.input.split_sentences = split;
    CHECK(Read(data.Prepare().shard_path) == Documents{{{5}, {6}}, {{7}}});
  }
}

TEST_CASE("a sentence that is too long becomes segments of which four fit an example") {
  Data data("a b c d e a b c d e a b\na b c d e a b c d e a\n");
  data.input.max_length = 11;
  const DocumentsReport report = data.Prepare();
  CHECK(report.cut == 1);
  CHECK(Read(report.shard_path) ==
        Documents{
            {{5, 6}, {7, 8}, {9, 5}, {6, 7}, {8, 9}, {5, 6}, {5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 5}}});
  CHECK_THAT(report.Describe(), Catch::Contains("cut for their length: 1 sentences"));
  data.input.max_length = 2;
  CHECK(Read(data.Prepare().shard_path)[0].size() == 23);
}

TEST_CASE("half of the examples of an unpunctuated text have a random next one") {
  std::string line;
  for (int i = 0; i < 40000; ++i) line += std::string(1, static_cast<char>('a' + i % 5)) + " ";
  Data data(line + "\n\n" + line + "e\n");
  const DocumentShard shard = *DocumentShard::Open(data.Prepare().shard_path);
  REQUIRE(shard.documents() == 2);
  const PretrainingExamples examples(shard, {.max_length = 128}, /*epoch=*/0);
  std::vector<uint32_t> all(static_cast<size_t>(examples.size()));
  std::iota(all.begin(), all.end(), 0u);
  const std::vector<float> labels = examples.Pack(all, 1.0f).next_labels;
  const float random = std::accumulate(labels.begin(), labels.end(), 0.0f);
  CHECK(examples.size() > 600);
  CHECK(random / static_cast<float>(examples.size()) == Approx(0.5).margin(0.07));
}

TEST_CASE("compressed files give the documents of plain ones") {
  const std::string text = "a b. C d\n\ne\n";
  const Data plain(text);
  const Data compressed(testing::Gzip(text));
  CHECK(Read(plain.Prepare().shard_path) == Read(compressed.Prepare().shard_path));
}

TEST_CASE("a second preparation finds the shards, and any change makes others") {
  Data data("a\n\nb\n\nc\n\nd\n\ne\n\na b\n\na c\n\na d\n");
  data.input.held_out = 0.4;
  const DocumentsReport first = data.Prepare();
  const auto time = fs::last_write_time(first.shard_path);
  const DocumentsReport second = data.Prepare();
  CHECK(second.reused);
  CHECK(second.name == "train");
  CHECK(second.shard_path == first.shard_path);
  CHECK(second.held_out_path == first.held_out_path);
  CHECK(fs::last_write_time(first.shard_path) == time);
  CHECK(second.kept.tokens == first.kept.tokens);
  CHECK(second.held_out.documents == first.held_out.documents);
  CHECK(second.lines == 8);
  CHECK_THAT(second.Describe(), Catch::Contains("prepared before and reused"));

  fs::remove(first.held_out_path);
  CHECK_FALSE(data.Prepare().reused);
  const std::string good = ReadTestFile(first.shard_path);
  WriteTestFile(first.shard_path, good.substr(0, good.size() / 2));
  CHECK_FALSE(data.Prepare().reused);
  CHECK(data.Prepare().reused);
  const auto is_new = [&](auto change) {
    Data changed("a\n\nb\n\nc\n\nd\n\ne\n\na b\n\na c\n\na d\n");
    changed.input.held_out = 0.4;
    changed.input.cache_dir = data.input.cache_dir;
    change(changed);
    return !changed.Prepare().reused;
  };
  CHECK_FALSE(is_new([](Data&) {}));
  CHECK(is_new([](Data& changed) { changed.input.held_out = 0.0; }));
  CHECK(is_new([](Data& changed) { changed.input.max_length = 127; }));
  CHECK(is_new([](Data& changed) { changed.input.split_sentences = false; }));
  CHECK(is_new(
      [](Data& changed) { changed.tokenizer = Tokenizer("[MASK]", {.lower_case = false}); }));
  CHECK(is_new(
      [](Data& changed) { WriteTestFile(changed.input.paths[0], "a\n\nb\n\nc\n\nd\n\ne\n"); }));
}

TEST_CASE("held-out documents are a share of all, and equal ones are on one side") {
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    for (int value = i; value > 0; value /= 5) text += std::string(1, char('a' + value % 5)) + " ";
    text += "e\n\n";
  }
  Data data(text + text);
  data.input.held_out = 0.1;
  const DocumentsReport report = data.Prepare();
  CHECK(report.kept.documents + report.held_out.documents == 4000);
  CHECK(report.held_out.documents > 300);
  CHECK(report.held_out.documents < 500);
  const Documents kept = Read(report.shard_path);
  const Documents held_out = Read(report.held_out_path);
  CHECK(kept.size() == static_cast<size_t>(report.kept.documents));
  CHECK(held_out.size() == static_cast<size_t>(report.held_out.documents));
  const std::set<Segments> of_kept(kept.begin(), kept.end());
  for (const Segments& document : held_out) CHECK(of_kept.count(document) == 0);
}

TEST_CASE("too few documents on one side are refused with a share that would do") {
  std::string text;
  for (const char* const document : {"a", "b", "c", "d", "e", "a b", "a c", "a d", "a e", "b a",
                                     "b c", "b d", "b e", "c a", "c b", "c d", "c e", "d a"}) {
    text += std::string(document) + "\n\n";
  }
  Data data(text);
  data.input.held_out = 1e-9;
  data.CheckRefused(ExitCode::kData, "of 18 documents 0 are held out (data.hold_out=1e-09)");
  data.CheckRefused(ExitCode::kData, "raise data.hold_out: try data.hold_out=0.28, ");
  data.input.held_out = 0.9999999;
  data.CheckRefused(ExitCode::kData, "none is left; try data.hold_out=0.28, ");
  data.input.held_out = 0.28;
  const DocumentsReport report = data.Prepare();
  // Also of shards that are there already.
  data.input.min_held_out = report.held_out.documents + 1;
  data.CheckRefused(ExitCode::kData, "are needed; raise data.hold_out");
}

TEST_CASE("documents that are longer than what decides their side stay whole") {
  std::string text;
  for (const char first : {'a', 'b', 'c', 'd', 'e', '.'}) {
    text += std::string(1, first) + "\n";
    for (int i = 0; i < 7000; ++i) text += "a b c d e a b c d e\n";
    text += "\n";
  }
  Data data(text);
  data.input.held_out = 0.5;
  const DocumentsReport report = data.Prepare();
  for (const std::string& path : {report.shard_path, report.held_out_path}) {
    for (const Segments& document : Read(path)) {
      CHECK(document.size() == 7001);
      CHECK(document.front().size() == 1);
    }
  }
  CHECK(report.kept.documents + report.held_out.documents == 6);
  CHECK(report.kept.tokens + report.held_out.tokens == 6 * 70001);
}

TEST_CASE("documents of one start are on one side, wherever segments end") {
  std::string text;
  for (int document = 0; document < 24; ++document) {
    // Twelve starts; the tokens from 65536 on are of one document each.
    for (int bit = 0; bit < 4; ++bit) text += ((document / 2) >> bit) % 2 == 0 ? "a " : "b ";
    for (int i = 0; i < 6553; ++i) text += "\na b c d e a b c d e";
    text += document % 2 == 0 ? " e e c c\n\n" : " e e d d\n\n";
  }
  Data data(text);
  data.input.held_out = 0.5;
  const DocumentsReport report = data.Prepare();
  std::set<std::vector<int32_t>> kept;
  for (const Segments& document : Read(report.shard_path)) kept.insert(document.front());
  for (const Segments& document : Read(report.held_out_path)) {
    CHECK(kept.count(document.front()) == 0);
  }
  CHECK(report.kept.documents + report.held_out.documents == 24);
}

TEST_CASE("the shard does not depend on the number of threads or on blocks") {
  std::string text;
  for (int i = 0; i < 4000; ++i) {
    text += std::string(static_cast<size_t>(2 * (i % 40)), ' ') + "a b. C ds e.";
    text += i % 7 == 0 ? "\n\n" : "\n";
    text += std::string(4000, ' ') + "e\n";  // more than one block
  }
  Data data(text);
  data.input.num_threads = 1;
  const DocumentsReport one = data.Prepare();
  const Documents documents = Read(one.shard_path);
  CHECK(documents.size() == 573);
  CHECK(one.kept.segments == 12000);
  fs::remove(one.shard_path);
  data.input.num_threads = 3;
  CHECK(Read(data.Prepare().shard_path) == documents);
}

TEST_CASE("a preparation that cannot be done says why and leaves nothing") {
  Data data;
  const std::string good = data.input.paths[0];
  data.input.paths = {data.dir.Write("bad.txt", "a\nb\xff\n")};
  data.CheckRefused(ExitCode::kData, "bad.txt:2: invalid UTF-8");
  data.input.paths = {data.dir.Write("empty.txt", " \n\n")};
  data.CheckRefused(ExitCode::kData, "empty.txt: has no text");
  data.input.paths = {data.dir.File("none.txt")};
  data.CheckRefused(ExitCode::kData, "none.txt");
  data.input.paths = {data.dir.Write("one.txt", "a\n")};
  data.input.held_out = 0.5;
  data.CheckRefused(ExitCode::kData, "one.txt: of 1 documents");
  data.CheckRefused(ExitCode::kData, "end documents by empty lines, set data.dev");
  CHECK(fs::is_empty(data.input.cache_dir));
  data.input.held_out = 1.0;
  data.CheckRefused(ExitCode::kUsage, "held_out=1");
  data.input.held_out = 0.0;
  data.input.max_length = 0;
  data.CheckRefused(ExitCode::kUsage, "max_length=0");
  data.input.max_length = 128;
  data.input.num_threads = -1;
  data.CheckRefused(ExitCode::kUsage, "num_threads");
  data.input.num_threads = 0;
  data.tokenizer = Tokenizer("[mask]");
  data.CheckRefused(ExitCode::kUsage, "no [MASK]");
  data.tokenizer = Tokenizer("[MASK]", {.behavior = WordPieceBehavior::kHuggingFace});
  data.CheckRefused(ExitCode::kUsage, "match_special_tokens=false");
  data.tokenizer = Tokenizer();
  data.input.name = "a/b";
  data.CheckRefused(ExitCode::kUsage, "a name without a slash");
  data.input.name = "train";
  data.input.paths = {};
  data.CheckRefused(ExitCode::kUsage, "no file of text");
  data.input.paths = {good};
  data.input.cache_dir = good;
  data.CheckRefused(ExitCode::kStorage, "a.txt");
}

TEST_CASE("a full disk is a storage error and leaves no file") {
  const Data data;
  {
    const FileSizeLimit limit(64);
    data.CheckRefused(ExitCode::kStorage, data.input.cache_dir);
  }
  CHECK(fs::is_empty(data.input.cache_dir));
}

}  // namespace
}  // namespace dtrain
