// prepare_test.cc - tables become shards, once; bad input ends in one clear message.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/prepare.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_format.h"
#include "dtrain/tasks/classification/classification_shard.h"
#include "dtrain/tasks/classification/glue.h"
#include "dtrain/tasks/classification/jigsaw.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

WordPieceTokenizer Tokenizer(std::vector<std::string> more = {}) {
  std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
                                     "a",     "b",     "c",     "good",  "bad"};
  pieces.insert(pieces.end(), more.begin(), more.end());
  StatusOr<WordPieceTokenizer> tokenizer = WordPieceTokenizer::FromVocabulary(pieces);
  REQUIRE(tokenizer.ok());
  return *std::move(tokenizer);
}

struct Data {
  Data() {
    input.name = "train";
    input.paths = {dir.Write("train.csv", "id,text,label\n1,good a,pos\n2,bad b,neg\n3,,pos\n")};
    input.schema = {.id = "id"};
    input.cache_dir = dir.File("cache/deep");
  }
  ClassificationReport Prepare() const {
    StatusOr<ClassificationReport> report = PrepareClassification(input, tokenizer);
    INFO(report.status().message());
    REQUIRE(report.ok());
    return *std::move(report);
  }
  void CheckRefused(ExitCode code, const std::string& part) const {
    const Status status = PrepareClassification(input, tokenizer).status();
    CHECK(status.code() == code);
    CHECK_THAT(std::string(status.message()), Catch::Contains(part));
  }
  TemporaryFolder dir;
  ClassificationInput input;
  WordPieceTokenizer tokenizer = Tokenizer();
};

std::vector<int32_t> Ids(const ClassificationShard& shard, int64_t i) {
  const TokenView view = shard.ids(i);
  std::vector<int32_t> ids;
  for (int64_t k = 0; k < view.size(); ++k) ids.push_back(view[k]);
  return ids;
}

TEST_CASE("two spellings of one label among the training texts are warned of") {
  Data data;
  data.input.paths = {data.dir.Write("a.csv", "text,label\na,0\nb,1\nc,0.0\n")};
  data.input.schema = {};
  const ClassificationReport report = data.Prepare();
  REQUIRE(report.counts.warnings.size() == 1);
  CHECK_THAT(report.counts.warnings[0],
             Catch::Contains("the labels \"0\" and \"0.0\" are the same number, and count as two"));
}

TEST_CASE("a table becomes a shard of ids, classes and names") {
  const Data data;
  const ClassificationReport report = data.Prepare();
  CHECK_FALSE(report.reused);
  CHECK(report.counts.kept == 3);
  CHECK(report.counts.empty_texts == 1);
  CHECK(report.tokens == 4 + 4 + 2);
  CHECK(report.longest == 4);
  CHECK(report.label_names == std::vector<std::string>{"neg", "pos"});
  CHECK(report.label_rows == std::vector<int64_t>{1, 2});
  CHECK_THAT(report.Describe(), Catch::Contains("train: 3 of 3 rows, 10 tokens") &&
                                    Catch::Contains("label pos: 2 rows (66.7 %)") &&
                                    Catch::Contains("empty texts: 1"));
  const ClassificationShard shard = *ClassificationShard::Open(report.shard_path);
  REQUIRE(shard.size() == 3);
  CHECK(Ids(shard, 0) == std::vector<int32_t>{2, 8, 5, 3});
  CHECK(Ids(shard, 2) == std::vector<int32_t>{2, 3});
  CHECK(shard.labels(0)[0] == 1.0f);
  CHECK(shard.labels(1)[0] == 0.0f);
  CHECK(shard.name(1) == "2");
  CHECK(shard.row(2) == 3);
  CHECK(shard.info().label_names == report.label_names);
}

TEST_CASE("a second preparation finds the shard, and any change makes another") {
  Data data;
  const ClassificationReport first = data.Prepare();
  const auto time = fs::last_write_time(first.shard_path);
  const ClassificationReport second = data.Prepare();
  CHECK(second.reused);
  CHECK(second.shard_path == first.shard_path);
  CHECK(fs::last_write_time(first.shard_path) == time);
  CHECK(second.label_rows == first.label_rows);
  CHECK(second.counts.empty_texts == 1);
  CHECK(second.label_names == first.label_names);

  data.input.max_length = 3;
  const ClassificationReport shorter = data.Prepare();
  CHECK(shorter.shard_path != first.shard_path);
  CHECK(shorter.full == 2);
  data.input.max_length = 128;
  data.input.schema.label_names = {"pos", "neg"};
  CHECK_FALSE(data.Prepare().reused);
  data.input.schema.label_names = {};
  data.tokenizer = Tokenizer({"more"});
  CHECK_FALSE(data.Prepare().reused);
  data.tokenizer = Tokenizer();
  WriteTestFile(data.input.paths[0], "id,text,label\n1,good b,pos\n");
  CHECK_FALSE(data.Prepare().reused);
}

TEST_CASE("a damaged shard is made anew") {
  const Data data;
  const ClassificationReport first = data.Prepare();
  const std::string good = ReadTestFile(first.shard_path);
  WriteTestFile(first.shard_path, good.substr(0, good.size() / 2));
  CHECK_FALSE(data.Prepare().reused);
  CHECK(ClassificationShard::Open(first.shard_path).ok());
  CHECK(data.Prepare().reused);
}

TEST_CASE("the shard does not depend on the number of threads") {
  Data data;
  std::string text = "text,text_pair,label\n";
  for (int i = 0; i < 3000; ++i) {
    text += std::string(static_cast<size_t>(i % 50), 'a') + " good,b " + std::to_string(i) + "," +
            std::to_string(i % 3) + "\n";
  }
  WriteTestFile(data.input.paths[0], text);
  data.input.schema = {.text_pair = "text_pair"};
  data.input.num_threads = 1;
  const ClassificationReport one = data.Prepare();
  const ClassificationShard of_one = *ClassificationShard::Open(one.shard_path);
  fs::rename(one.shard_path, one.shard_path + ".one");
  data.input.num_threads = 3;
  const ClassificationReport three = data.Prepare();
  REQUIRE(three.shard_path == one.shard_path);
  const ClassificationShard of_three = *ClassificationShard::Open(three.shard_path);
  REQUIRE(of_three.size() == 3000);
  for (int64_t i = 0; i < 3000; ++i) {
    REQUIRE(Ids(of_one, i) == Ids(of_three, i));
    REQUIRE(of_one.labels(i)[0] == of_three.labels(i)[0]);
    REQUIRE(of_one.first_length(i) == of_three.first_length(i));
  }
}

TEST_CASE("files number their classes together") {
  Data data;
  data.input.paths.push_back(data.dir.Write("more.csv", "id,text,label\n1,a,mid\n2,b,pos\n"));
  const ClassificationReport report = data.Prepare();
  CHECK(report.label_names == std::vector<std::string>{"mid", "neg", "pos"});
  CHECK(report.label_rows == std::vector<int64_t>{1, 1, 3});
  const ClassificationShard shard = *ClassificationShard::Open(report.shard_path);
  CHECK(shard.labels(3)[0] == 0.0f);
  CHECK(shard.labels(4)[0] == 2.0f);
  CHECK(shard.row(3) == 1);
}

TEST_CASE("Jigsaw's weights have a mean of 1 in the shard") {
  Data data;
  std::string text = "id,target,comment_text";
  for (const std::string_view name : kJigsawIdentities) text.append(",").append(name);
  text += "\n1,0.9,a,,,,,,,,,\n2,0,b,1,,,,,,,,\n3,0,c,,,,,,,,,\n";
  data.input.paths = {data.dir.Write("train.csv", text)};
  data.input.schema = JigsawSchema({.group_weights = GroupWeights::kFixed});
  const ClassificationReport report = data.Prepare();
  const ClassificationShard shard = *ClassificationShard::Open(report.shard_path);
  CHECK(shard.weight(0) + shard.weight(1) + shard.weight(2) == Approx(3.0));
  CHECK(shard.weight(1) == Approx(3.0f * shard.weight(2)));
  CHECK(shard.groups(1) == 1u);
  CHECK(shard.info().group_names[8] == "psychiatric_or_mental_illness");
  CHECK(report.label_names == std::vector<std::string>{"toxic"});
  CHECK(report.label_rows == std::vector<int64_t>{1});
}

TEST_CASE("some groups that a labelled test set lacks are warned of, also where it is reused") {
  Data data;
  const auto warnings = [&](const std::string& text) {
    data.input.paths = {data.dir.Write("test.csv", text)};
    data.input.schema = JigsawSchema({.labelled = false});
    return data.Prepare().counts.warnings;
  };
  std::string header = "id,target,comment_text";
  for (const std::string_view name : kJigsawIdentities) {
    if (name != "male" && name != "black") header.append(",").append(name);
  }
  const std::string labelled = header + "\n1,0.9,a,,,,,,,\n2,0,b,1,,,,,,\n";
  const std::vector<std::string> some = warnings(labelled);
  REQUIRE(some.size() == 1);
  CHECK_THAT(some[0], Catch::EndsWith("test.csv: has labels, but lacks the groups \"male\", "
                                      "\"black\"; metrics over all groups are nan"));
  CHECK(data.Prepare().reused);
  CHECK(warnings(labelled) == some);
  CHECK(warnings(header + "\n1,,a,,,,,,,\n2,,b,1,,,,,,\n").empty());
  CHECK(warnings("id,target,comment_text\n1,0.9,a\n2,0,b\n").empty());
}

TEST_CASE("a preparation that cannot be done says why and leaves nothing") {
  Data data;
  const std::string good_path = data.input.paths[0];
  data.input.paths = {data.dir.File("none.csv")};
  data.CheckRefused(ExitCode::kData, "none.csv");
  data.input.paths = {data.dir.Write("bad.csv", "id,text,label\n1,\"a\"b,pos\n")};
  data.CheckRefused(ExitCode::kData, "bad.csv:2: row 1, column \"text\": text after a closing");
  data.input.paths = {data.dir.Write("head.csv", "id,text,label\n")};
  data.CheckRefused(ExitCode::kData, "head.csv: the file has a header and no rows");
  CHECK(fs::is_empty(data.input.cache_dir));
  data.input.paths = {data.dir.path()};
  data.CheckRefused(ExitCode::kData, data.dir.path());
  data.input.paths = {};
  data.CheckRefused(ExitCode::kUsage, "no file of texts is given for train");
  data.input.paths = {good_path};
  data.input.max_length = 2;
  data.CheckRefused(ExitCode::kUsage, "max_length=2");
  data.input.max_length = 128;
  data.input.name = "a/b";
  data.CheckRefused(ExitCode::kUsage, "a name without a slash");
  data.input.name = "train";
  data.input.cache_dir = good_path;
  data.CheckRefused(ExitCode::kStorage, "train.csv");
}

TEST_CASE("a full disk is a storage error and leaves no file") {
  const Data data;
  {
    const FileSizeLimit limit(64);
    data.CheckRefused(ExitCode::kStorage, data.input.cache_dir);
  }
  CHECK(fs::is_empty(data.input.cache_dir));
}

TEST_CASE("the sets of GLUE at hand are read whole") {
  const std::optional<fs::path> root = testing::SharedPath("data/classification");
  if (!root) return;
  const std::tuple<const char*, const char*, int64_t> sets[] = {{"SST-2", "dev", 872},
                                                                {"CoLA", "train", 8551},
                                                                {"CoLA", "dev", 1043},
                                                                {"RTE", "train", 2490},
                                                                {"RTE", "dev", 277}};
  for (const auto& [name, split_name, rows] : sets) {
    const GlueTask task = *FindGlueTask(name);
    const GlueSplit split = *GlueSplitOf(task, split_name, *root / task.folder);
    StatusOr<ExampleReader> reader = ExampleReader::Open(split.path, split.schema);
    REQUIRE(reader.ok());
    for (ExampleBlock block; *reader->NextBlock(block);) continue;
    CHECK(reader->counts().rows == rows);
    CHECK(reader->counts().kept == rows);
  }
}

TEST_CASE("a table that changes while it is prepared is named, and nothing is kept of it") {
  Data data;
  std::string rows = "text,label\n";
  for (int i = 0; i < 40'000; ++i) rows += "good a bad b c good bad,pos\nbad c a,neg\n";
  Status status;
  // The other thread may come too late.
  for (int tries = 0; tries < 50 && status.ok(); ++tries) {
    data.input.paths = {data.dir.Write("growing.csv", rows)};
    data.input.schema = {};
    data.input.cache_dir = data.dir.File(absl::StrFormat("cache%d", tries));
    std::atomic<bool> done = false;
    std::thread writer([&] {
      // The folder is made when the contents have their names.
      while (!done && !fs::exists(data.input.cache_dir)) std::this_thread::yield();
      std::ofstream(data.input.paths[0], std::ios::app) << "good,pos\n";
    });
    status = PrepareClassification(data.input, data.tokenizer).status();
    done = true;
    writer.join();
  }
  CHECK(status.code() == ExitCode::kData);
  CHECK_THAT(
      std::string(status.message()),
      Catch::Contains("growing.csv: changed while it was read; prepare again when it is complete"));
  CHECK(fs::is_empty(data.input.cache_dir));
}

TEST_CASE("what killed preparations left is removed when it is a day old") {
  const Data data;
  const ClassificationReport report = data.Prepare();
  const fs::path shard = report.shard_path;
  const auto leave = [&](const std::string& name, int hours) {
    const fs::path path = shard.parent_path() / name;
    std::ofstream(path) << "a part";
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
    return path;
  };
  const std::string name = ".tmp-" + shard.filename().string();
  const fs::path old = leave(name + "-0123456789abcdef", 25);
  const fs::path young = leave(name + "-123456789abcdef0", 23);
  const fs::path other = leave(".tmp-other.shard-0123456789abcdef", 25);
  CHECK(data.Prepare().reused);
  CHECK_FALSE(fs::exists(old));
  CHECK(fs::exists(young));
  CHECK(fs::exists(other));
}

}  // namespace
}  // namespace dtrain
