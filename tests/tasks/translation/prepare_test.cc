// prepare_test.cc - a corpus becomes a folder of shards; bad input ends in one clear message.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/prepare.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "data/test_files.h"
#include "dtrain/base/log.h"
#include "dtrain/tasks/translation/token_shard.h"
#include "dtrain/tokenizers/bpe.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::Gzip;
using namespace std::string_literals;

// Sentences that repeat words, so that there is something to learn.
std::string Sentence(int i, bool german) {
  static const char* const kWords[2][5] = {{"house", "water", "garden", "window", "morning"},
                                           {"Haus", "Wasser", "Garten", "Fenster", "Morgen"}};
  std::string line;
  for (int value = i + 7; value > 0; value /= 5) {
    if (!line.empty()) line += ' ';
    line += kWords[german ? 1 : 0][value % 5];
  }
  return line;
}

std::string Text(int begin, int end, bool german) {
  std::string text;
  for (int i = begin; i < end; ++i) text += Sentence(i, german) + "\n";
  return text;
}

struct Corpus {
  Corpus() {
    options.train = {{dir.Write("train.en", Text(0, 400, false)),
                      dir.Write("train.de", Gzip(Text(0, 400, true)))}};
    options.dev = {dir.Write("dev.tsv", Sentence(500, false) + "\t" + Sentence(500, true) + "\n")};
    options.hold_out_test = 0;
    options.output_dir = dir.File("out/data");
    options.bpe.vocab_size = 100;
  }
  std::string Out(const std::string& name) const { return options.output_dir + "/" + name; }

  TemporaryFolder dir;
  PrepareOptions options;
};

void CheckRefused(const PrepareOptions& options, ExitCode code,
                  const std::vector<std::string>& parts) {
  const Status status = PrepareParallelCorpus(options).status();
  CHECK(status.code() == code);
  for (const std::string& part : parts) {
    CHECK_THAT(std::string(status.message()), Catch::Contains(part));
  }
}

std::string DecodeTarget(const TokenShard& shard, const BpeModel& model, int64_t i) {
  std::vector<int32_t> ids;
  shard.AppendTarget(i, ids);
  return model.Decode(ids);
}

TEST_CASE("a prepared folder gives back the text") {
  Corpus corpus;
  StatusOr<PrepareReport> report = PrepareParallelCorpus(corpus.options);
  REQUIRE(report.ok());
  CHECK_FALSE(report->reused);
  CHECK(report->train.pairs == 400);
  CHECK(report->dev.pairs == 1);
  CHECK(report->test.pairs == 0);
  const StatusOr<BpeModel> model = BpeModel::Load(corpus.Out("vocab.spm"));
  REQUIRE(model.ok());
  CHECK(model->Hash() == report->vocab_hash);
  const StatusOr<TokenShard> train =
      TokenShard::Open(corpus.Out("train.bin"), {.vocab_hash = model->Hash()});
  REQUIRE(train.ok());
  for (const int i : {0, 123, 399}) CHECK(DecodeTarget(*train, *model, i) == Sentence(i, true));
  CHECK(train->source_tokens() == report->train.source.pieces);
  CHECK(ReadTestFile(corpus.Out("dev.src")) == Sentence(500, false) + "\n");
  CHECK(ReadTestFile(corpus.Out("dev.ref")) == Sentence(500, true) + "\n");
  CHECK_FALSE(fs::exists(corpus.Out("test.bin")));
  CHECK_FALSE(fs::exists(corpus.Out(".partial")));
  CHECK_THAT(report->Describe(), Catch::Contains("400 of 400 pairs kept"));
}

TEST_CASE("the result does not depend on the number of threads") {
  Corpus corpus;
  corpus.options.num_threads = 1;
  REQUIRE(PrepareParallelCorpus(corpus.options).ok());
  const std::string one = ReadTestFile(corpus.Out("train.bin"));
  corpus.options.num_threads = 3;
  corpus.options.output_dir = corpus.dir.File("three");
  REQUIRE(PrepareParallelCorpus(corpus.options).ok());
  CHECK(ReadTestFile(corpus.Out("train.bin")) == one);
}

TEST_CASE("preparing again reuses, refuses or overwrites") {
  Corpus corpus;
  REQUIRE(PrepareParallelCorpus(corpus.options).ok());
  const fs::file_time_type time = fs::last_write_time(corpus.Out("train.bin"));
  StatusOr<PrepareReport> again = PrepareParallelCorpus(corpus.options);
  REQUIRE(again.ok());
  CHECK(again->reused);
  CHECK(again->train.pairs == 400);
  CHECK(again->cleaning.pairs_kept() == 400);
  CHECK(again->train.target.histogram.size() > 0);
  CHECK(fs::last_write_time(corpus.Out("train.bin")) == time);
  CHECK_THAT(again->Describe(), Catch::Contains("reused"));

  corpus.options.bpe.vocab_size = 90;
  corpus.dir.Write("train.en", Text(1, 401, false));
  CheckRefused(corpus.options, ExitCode::kUsage,
               {corpus.options.output_dir, "vocab_size is 100 there, 90 now",
                "content of train[0].source is"});
  CHECK(fs::last_write_time(corpus.Out("train.bin")) == time);
  corpus.options.overwrite = true;
  again = PrepareParallelCorpus(corpus.options);
  REQUIRE(again.ok());
  CHECK_FALSE(again->reused);
  CHECK(again->vocab_size <= 90);
}

TEST_CASE("options that prepared data were not made with are named, defaults ask for nothing") {
  Corpus corpus;
  REQUIRE(PrepareParallelCorpus(corpus.options).ok());
  CHECK(DescribeIgnoredOptions(corpus.options).empty());
  PrepareOptions options;
  options.output_dir = corpus.options.output_dir;
  CHECK(DescribeIgnoredOptions(options).empty());
  options.bpe.vocab_size = 90;
  options.cleaning.drop_copies = true;
  CHECK(DescribeIgnoredOptions(options) ==
        "vocab_size is 100 there, 90 now; cleaning.drop_copies is 0 there, 1 now");
  options = corpus.options;
  options.bpe.character_coverage = 0.9999999;
  options.cleaning.max_bytes = 1048577;
  CHECK_THAT(DescribeIgnoredOptions(options),
             Catch::Contains("character_coverage is 1 there, 0.9999999 now") &&
                 Catch::Contains("cleaning.max_bytes is 0 there, 1048577 now"));
  options.output_dir = corpus.dir.File("nothing");
  CHECK(DescribeIgnoredOptions(options).empty());
}

TEST_CASE("preparations of one folder at the same time wait for each other and agree") {
  Corpus corpus;
  corpus.options.num_threads = 1;
  std::vector<std::thread> threads;
  std::atomic<int> made = 0;
  std::atomic<int> reused = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const StatusOr<PrepareReport> report = PrepareParallelCorpus(corpus.options);
      if (report.ok()) ++(report->reused ? reused : made);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(made == 1);
  CHECK(reused == 3);
  CHECK(ReadTestFile(corpus.Out("dev.src")) == Sentence(500, false) + "\n");
  CHECK_FALSE(fs::exists(corpus.Out(".partial")));
  CHECK_FALSE(fs::exists(corpus.Out(".lock")));
}

TEST_CASE("a preparation that waited for one that failed does the work itself") {
  Corpus corpus;
  corpus.options.num_threads = 1;
  PrepareOptions broken = corpus.options;
  broken.train[0].target = corpus.dir.Write("short.de", Text(0, 399, true));
  for (int i = 0; i < 10; ++i) {
    Status failed;
    std::thread other([&] { failed = PrepareParallelCorpus(broken).status(); });
    const Status done = PrepareParallelCorpus(corpus.options).status();
    other.join();
    REQUIRE(done.ok());
    CHECK_FALSE(failed.ok());
    fs::remove_all(corpus.options.output_dir);
  }
}

TEST_CASE("a text that changes while it is prepared is named, and nothing is kept of it") {
  const Corpus corpus;
  const std::string& path = corpus.options.train[0].source;
  // Between the two passes, when its content has its name.
  const LogSink before = SetLogSink([&](LogLevel, std::string_view message) {
    if (!message.starts_with("learning")) return;
    std::ofstream(path, std::ios::app) << "one more line\n";
  });
  CheckRefused(corpus.options, ExitCode::kData,
               {"train.en: changed while it was read; prepare again when it is complete"});
  SetLogSink(before);
  CHECK_FALSE(fs::exists(corpus.options.output_dir));
  CheckRefused(corpus.options, ExitCode::kData, {"train.en has 401 lines"});
}

TEST_CASE("a folder of something else is left alone, a damaged one is named") {
  Corpus corpus;
  fs::create_directories(corpus.options.output_dir);
  corpus.dir.Write("out/data/thesis.tex", "precious");
  CheckRefused(corpus.options, ExitCode::kUsage,
               {"/out/data: is not empty and holds no prepared data; give `dtrain prepare` another "
                "output folder, or --overwrite to add to the files there, and a run another "
                "run.run_dir"});
  corpus.options.overwrite = true;
  REQUIRE(PrepareParallelCorpus(corpus.options).ok());
  CHECK(ReadTestFile(corpus.Out("thesis.tex")) == "precious");

  corpus.options.overwrite = false;
  fs::resize_file(corpus.Out("train.bin"), 200);
  CheckRefused(corpus.options, ExitCode::kData, {"train.bin: damaged token shard", "overwrite"});
  corpus.dir.Write("out/data/prepare_report.json", "{}");
  CheckRefused(corpus.options, ExitCode::kData, {"prepare_report.json: damaged report"});
  corpus.options.output_dir = corpus.dir.Write("file", "");
  CheckRefused(corpus.options, ExitCode::kUsage, {"/file: is not a folder"});
  corpus.options.output_dir = "/proc/nowhere";
  CheckRefused(corpus.options, ExitCode::kStorage, {"/proc/nowhere: cannot be created"});
}

TEST_CASE("files of a prepared folder's names that no preparation made are left alone") {
  Corpus corpus;
  fs::create_directories(corpus.options.output_dir);
  for (const bool overwrite : {false, true}) {
    corpus.options.overwrite = overwrite;
    for (const std::string name : {"test.src", "train.bin", "vocab.spm"}) {
      corpus.dir.Write("out/data/" + name, "precious");
      CheckRefused(corpus.options, ExitCode::kUsage,
                   {"/out/data/" + name + ": no preparation made this file; name another output"});
      CHECK(ReadTestFile(corpus.Out(name)) == "precious");
      fs::remove(corpus.Out(name));
    }
  }
  CHECK(PrepareParallelCorpus(corpus.options).ok());
}

TEST_CASE("what is read is not replaced") {
  Corpus corpus;
  REQUIRE(PrepareParallelCorpus(corpus.options).ok());
  corpus.options.overwrite = true;
  const std::string dev = ReadTestFile(corpus.Out("dev.src"));
  const std::string link = corpus.dir.File("link");
  fs::create_symlink(corpus.Out("dev.src"), link);
  for (const std::string& path : {corpus.Out("dev.src"), link}) {
    PrepareOptions options = corpus.options;
    options.dev = {path, corpus.dir.Write("dev.de", "Haus\n")};
    CheckRefused(options, ExitCode::kUsage,
                 {path + ": is an input and would be replaced; name another output folder"});
  }
  PrepareOptions options = corpus.options;
  options.model_path = corpus.Out("vocab.spm");
  CheckRefused(options, ExitCode::kUsage, {"vocab.spm: is an input and would be replaced"});
  options = corpus.options;
  options.train.push_back({corpus.Out("dev.src"), corpus.Out("dev.ref")});
  CheckRefused(options, ExitCode::kUsage, {"dev.src: is an input and would be replaced"});
  CHECK(ReadTestFile(corpus.Out("dev.src")) == dev);
  CHECK(fs::exists(corpus.Out("train.bin")));
}

TEST_CASE("a preparation that was killed while it moved its files is made again") {
  Corpus corpus;
  REQUIRE(PrepareParallelCorpus(corpus.options).ok());
  fs::remove(corpus.Out("prepare_report.json"));
  CheckRefused(corpus.options, ExitCode::kUsage, {"no preparation made this file"});
  fs::create_directory(corpus.Out(".partial"));
  fs::rename(corpus.Out("dev.src"), corpus.Out(".partial/dev.src"));
  corpus.dir.Write("out/data/thesis.tex", "precious");
  CheckRefused(corpus.options, ExitCode::kUsage, {"is not empty and holds no prepared data"});
  fs::remove(corpus.Out("thesis.tex"));
  REQUIRE(PrepareParallelCorpus(corpus.options).ok());
  CHECK(fs::exists(corpus.Out("dev.src")));
}

TEST_CASE("a given model is used as it is") {
  Corpus corpus;
  REQUIRE(PrepareParallelCorpus(corpus.options).ok());
  PrepareOptions options = corpus.options;
  options.output_dir = corpus.dir.File("second");
  options.model_path = corpus.Out("vocab.spm");
  StatusOr<PrepareReport> report = PrepareParallelCorpus(options);
  REQUIRE(report.ok());
  CHECK_FALSE(report->vocab_learned);
  CHECK(ReadTestFile(options.output_dir + "/vocab.spm") == ReadTestFile(options.model_path));
  const StatusOr<TokenShard> shard = TokenShard::Open(options.output_dir + "/train.bin");
  CHECK(shard->info().vocab_hash == report->vocab_hash);
  options.model_path = corpus.dir.File("no.spm");
  CheckRefused(options, ExitCode::kData, {"no.spm"});
}

TEST_CASE("dev and test are held out of train where they are not given") {
  Corpus corpus;
  corpus.options.dev = {};
  corpus.options.hold_out_dev = 5;
  corpus.options.hold_out_test = 1000;  // more than one pair in 20
  StatusOr<PrepareReport> report = PrepareParallelCorpus(corpus.options);
  REQUIRE(report.ok());
  CHECK(report->dev.pairs == 5);
  CHECK(report->test.pairs == 20);
  CHECK(report->train.pairs == 375);
  REQUIRE(report->notes.size() >= 2);
  CHECK(report->notes[0] == "5 pairs of the training text are held out as dev");
  CHECK(report->notes[1] ==
        "20 pairs of the training text are held out as test (1000 requested; at most one pair in "
        "20)");
  const std::string dev = ReadTestFile(corpus.Out("dev.src"));
  CHECK(std::count(dev.begin(), dev.end(), '\n') == 5);
  const StatusOr<BpeModel> model = BpeModel::Load(corpus.Out("vocab.spm"));
  const StatusOr<TokenShard> train = TokenShard::Open(corpus.Out("train.bin"));
  const std::string dev_target = "\n"s.append(ReadTestFile(corpus.Out("dev.ref")));
  for (int64_t i = 0; i < train->size(); ++i) {
    const std::string target = DecodeTarget(*train, *model, i);
    REQUIRE(dev_target.find("\n"s.append(target).append("\n")) == std::string::npos);
  }
}

// Two texts of 200 pairs, of which 50 pairs are in both; the second has a tag.
struct MixedCorpus : Corpus {
  MixedCorpus() {
    options.train = {
        {dir.Write("a.en", Text(0, 200, false)), dir.Write("a.de", Text(0, 200, true))},
        {dir.Write("b.en", Text(150, 350, false)), dir.Write("b.de", Text(150, 350, true))}};
    options.sources = {{.weight = 1.0}, {.weight = 3.0, .tag = "<b>"}};
  }
};

TEST_CASE("sources keep their pairs and weights, and tags are pieces before their sentences") {
  MixedCorpus corpus;
  const StatusOr<PrepareReport> report = PrepareParallelCorpus(corpus.options);
  REQUIRE(std::string(report.status().message()) == "");
  REQUIRE(report->sources.size() == 2);
  CHECK(report->sources[0].pairs == 200);
  CHECK(report->sources[1].pairs == 200);
  CHECK(report->sources[1].pairs_per_epoch == 300);
  CHECK_THAT(report->Describe(),
             Catch::Contains("source 2: 200 pairs, weight 3, tag <b>: 300 of an epoch's 400 pairs, "
                             "each 1.50 times\n"));
  const StatusOr<TokenShard> train = TokenShard::Open(corpus.Out("train.bin"));
  REQUIRE(train.ok());
  REQUIRE(train->sources().size() == 2);
  CHECK(train->sources()[0] == SampleSource{200, 1.0});
  CHECK(train->sources()[1] == SampleSource{200, 3.0});
  const BpeModel model = BpeModel::Load(corpus.Out("vocab.spm")).value();
  std::vector<int32_t> plain;
  std::vector<int32_t> tagged;
  train->AppendSource(170, plain);
  train->AppendSource(220, tagged);  // the same pair of the other source
  CHECK(plain == model.Encode(Sentence(170, false)));
  CHECK(tagged == model.Encode("<b> " + Sentence(170, false)));
  REQUIRE(tagged.size() == plain.size() + 1);
  CHECK(model.Piece(tagged[0]) == "\u2581<b>");
  CHECK(std::equal(plain.begin(), plain.end(), tagged.begin() + 1));
  // What was made is found again.
  const StatusOr<PrepareReport> again = PrepareParallelCorpus(corpus.options);
  REQUIRE(again.ok());
  CHECK(again->reused);
  CHECK(again->Describe().find("300 of an epoch's 400 pairs") != std::string::npos);
}

TEST_CASE("data of other weights, tags or divisions is not taken for that of these sources") {
  MixedCorpus corpus;
  REQUIRE(PrepareParallelCorpus(corpus.options).ok());
  PrepareOptions other = corpus.options;
  other.sources[1].weight = 2.0;
  CheckRefused(other, ExitCode::kUsage, {"data.sources, item 2: weight is 3 there, 2 now"});
  other = corpus.options;
  other.sources[1].tag = "<c>";
  CheckRefused(other, ExitCode::kUsage, {"data.sources, item 2: tag is <b> there, <c> now"});
  other = corpus.options;
  other.sources = {};
  CheckRefused(other, ExitCode::kUsage, {"data.sources, item 1: files is 1 there, absent now"});
}

TEST_CASE("pairs held out of a source have its tag, and no source has them") {
  MixedCorpus corpus;
  corpus.options.dev = {};
  corpus.options.hold_out_dev = 20;
  const StatusOr<PrepareReport> report = PrepareParallelCorpus(corpus.options);
  REQUIRE(report.ok());
  CHECK(report->dev.pairs == 20);
  const std::string dev = ReadTestFile(corpus.Out("dev.src"));
  const std::string references = ReadTestFile(corpus.Out("dev.ref"));
  CHECK(dev.find("<b> ") != std::string::npos);
  const auto& overlap = report->cleaning.entry(DropReason::kEvaluationOverlap);
  CHECK(overlap.pairs >= 20);
  CHECK(report->train.pairs == 400 - overlap.pairs);
  // A dev set that the user gives with tags is compared without them.
  PrepareOptions given = corpus.options;
  given.dev = {corpus.dir.Write("tagged.en", dev), corpus.dir.Write("tagged.de", references)};
  given.output_dir = corpus.dir.File("given");
  const StatusOr<PrepareReport> tagged = PrepareParallelCorpus(given);
  REQUIRE(tagged.ok());
  CHECK(tagged->cleaning.entry(DropReason::kEvaluationOverlap).pairs == overlap.pairs);
}

TEST_CASE("sources that cannot be mixed are named") {
  MixedCorpus corpus;
  REQUIRE(PrepareParallelCorpus(corpus.options).ok());
  const std::string vocabulary = corpus.Out("vocab.spm");
  corpus.options.output_dir = corpus.dir.File("other");
  PrepareOptions other = corpus.options;
  other.sources[0].weight = 0.0;
  CheckRefused(other, ExitCode::kUsage,
               {"data.sources, item 1 (", "a.en): weight is 0; it must be above 0"});
  other = corpus.options;
  other.sources[1].tag = "in two";
  CheckRefused(other, ExitCode::kUsage, {"item 2", "tag 'in two' has white space"});
  other = corpus.options;
  other.sources[1].tag = "</s>";
  CheckRefused(other, ExitCode::kUsage, {"item 2", "tag '</s>' has a meaning of its own"});
  other.sources[1].tag = "house";
  CheckRefused(other, ExitCode::kUsage, {"item 2", "tag 'house' could be ordinary text"});
  other = corpus.options;
  other.sources[0].weight = 1e-5;
  CheckRefused(other, ExitCode::kData,
               {"item 1", "weight 1e-05 gives it none of the 400 pairs of an epoch"});
  other = corpus.options;
  other.train[1] = {corpus.dir.Write("none.tsv", "")};
  CheckRefused(other, ExitCode::kData, {"data.sources, item 2 (", "none.tsv): no pair"});
  other = corpus.options;
  other.train[1].target = corpus.dir.Write("short.de", Text(150, 300, true));
  CheckRefused(other, ExitCode::kData, {"b.en", "short.de", "200", "150"});
  // The vocabulary that was learned for these sources has their tag, but no other.
  other = corpus.options;
  other.model_path = vocabulary;
  CHECK(PrepareParallelCorpus(other).ok());
  other.output_dir = corpus.dir.File("third");
  other.sources[1].tag = "<unheard>";
  CheckRefused(other, ExitCode::kUsage,
               {"data.sources, item 2 (", "tag '<unheard>' is not a piece of the vocabulary"});
}

TEST_CASE("a vocabulary that a small text cannot fill says so") {
  Corpus corpus;
  corpus.options.bpe.vocab_size = 5000;
  StatusOr<PrepareReport> report = PrepareParallelCorpus(corpus.options);
  REQUIRE(report.ok());
  CHECK(report->vocab_size < 5000);
  REQUIRE(report->notes.size() == 1);
  CHECK(report->notes[0] ==
        "the vocabulary has only " + std::to_string(report->vocab_size) +
            " of the 5000 requested pieces: the text has no more pairs to merge");
}

TEST_CASE("no text is unknown to a vocabulary that spells characters as bytes") {
  Corpus corpus;
  corpus.options.bpe.vocab_size = 400;
  corpus.dir.Write("dev.tsv", "\xE6\xB0\xB4\t\xE6\xB0\xB4\n");
  for (const bool byte_fallback : {false, true}) {
    corpus.options.bpe.byte_fallback = byte_fallback;
    corpus.options.output_dir = corpus.dir.File(byte_fallback ? "bytes" : "unknown");
    const StatusOr<PrepareReport> report = PrepareParallelCorpus(corpus.options);
    REQUIRE(report.ok());
    CHECK(report->train.source.unknown_pieces == 0);
    CHECK(report->dev.source.unknown_pieces == (byte_fallback ? 0 : 1));
    CHECK((report->Describe().find("are unknown") == std::string::npos) == byte_fallback);
  }
}

TEST_CASE("dropped pairs are counted by reason, evaluation sets are cut but not filtered") {
  Corpus corpus;
  corpus.dir.Write("train.en", Text(0, 400, false) + "\nwater\n" + Sentence(3, false) + "\n" +
                                   Sentence(500, false) + "\nsch\xF6n\n");
  corpus.dir.Write("train.de", Text(0, 400, true) + "leer\n" + Sentence(399, true) + "\n" +
                                   Sentence(3, true) + "\nneu\nok\n");
  corpus.dir.Write("dev.tsv", Sentence(500, false) + "\t" + Sentence(500, true) + "\n\tHaus\n");
  corpus.options.cleaning.max_pieces = 3;
  StatusOr<PrepareReport> report = PrepareParallelCorpus(corpus.options);
  REQUIRE(report.ok());
  const CleaningReport& cleaning = report->cleaning;
  CHECK(cleaning.pairs_read() == 405);
  CHECK(cleaning.entry(DropReason::kEmptySide).examples ==
        std::vector<std::string>{corpus.dir.File("train.en") + ":401"});
  CHECK(cleaning.entry(DropReason::kDuplicatePair).examples ==
        std::vector<std::string>{corpus.dir.File("train.en") + ":403"});
  CHECK(cleaning.entry(DropReason::kEvaluationOverlap).pairs == 1);
  CHECK(cleaning.entry(DropReason::kInvalidText).pairs == 1);
  CHECK(cleaning.entry(DropReason::kTooManyPieces).pairs > 0);
  CHECK(report->train.pairs == cleaning.pairs_kept());
  CHECK(report->train.source.longest <= 3);
  CHECK(report->dev.pairs == 2);
  CHECK(report->dev.cut_pairs == 1);
  CHECK(ReadTestFile(corpus.Out("dev.ref")) == Sentence(500, true) + "\nHaus\n");
}

TEST_CASE("input that cannot be read ends in a data error and leaves no folder") {
  Corpus corpus;
  PrepareOptions& options = corpus.options;
  const TemporaryFolder& dir = corpus.dir;
  options.train[0].target = dir.File("missing.de");
  CheckRefused(options, ExitCode::kData, {"missing.de: cannot be opened"});
  options.train[0].target = dir.path();
  CheckRefused(options, ExitCode::kData, {dir.path() + ": is a directory"});
  options.train[0].target = dir.Write("short.de", Text(0, 398, true));
  CheckRefused(options, ExitCode::kData, {"train.en has 400 lines", "short.de has 398"});
  options.train = {{dir.Write("empty.tsv", "")}};
  CheckRefused(options, ExitCode::kData, {"empty.tsv: the training text is empty"});
  options.train = {{dir.Write("blank.tsv", "\t\n \t \n")}};
  CheckRefused(options, ExitCode::kData, {"no pair of 2 is left", "2 empty_side", "blank.tsv:1"});
  options.train = {{dir.Write("plain.tsv", "a\tb\nno tab\n")}};
  CheckRefused(options, ExitCode::kData, {"plain.tsv:2: no tab"});
  CHECK_FALSE(fs::exists(options.output_dir));
}

TEST_CASE("text with many broken lines ends in a data error with path and line") {
  Corpus corpus;
  PrepareOptions& options = corpus.options;
  const TemporaryFolder& dir = corpus.dir;
  options.train = {{dir.Write("a.tsv", "good\tgut\nnice\tsch\xF6n\n")}};
  CheckRefused(options, ExitCode::kData, {"a.tsv:2: invalid UTF-8", "1 of 2 lines are broken"});
  options.train = {{dir.Write("nul.tsv", "a\tb\0c\n"s)}};
  CheckRefused(options, ExitCode::kData, {"nul.tsv:1: a NUL byte"});
  options.train = {{dir.Write("long.tsv", "a\t" + std::string(1 << 20, 'x') + "\n")}};
  CheckRefused(options, ExitCode::kData, {"long.tsv:1: the line is too long"});
  options.train = {{dir.Write("fine.tsv", Sentence(1, false) + "\t" + Sentence(1, true) + "\n")}};
  options.dev = {dir.Write("dev.tsv", "good\tgut\nnice\tsch\xF6n\n")};
  CheckRefused(options, ExitCode::kData, {"dev.tsv:2: invalid UTF-8"});
  options.dev = {dir.Write("dev.tsv", "")};
  CheckRefused(options, ExitCode::kData, {"dev.tsv: is empty"});
  CHECK_FALSE(fs::exists(options.output_dir));
}

TEST_CASE("options that cannot be are usage errors") {
  Corpus corpus;
  PrepareOptions options = corpus.options;
  options.train.clear();
  CheckRefused(options, ExitCode::kUsage, {"no training text"});
  options = corpus.options;
  options.output_dir.clear();
  CheckRefused(options, ExitCode::kUsage, {"no output folder"});
  options = corpus.options;
  options.bpe.vocab_size = 5;
  CheckRefused(options, ExitCode::kUsage, {"5"});
  CHECK_FALSE(fs::exists(options.output_dir));
}

TEST_CASE("columns behind the second are not read, which a note says") {
  Corpus corpus;
  std::string table;
  for (int i = 0; i < 100; ++i) {
    table += Sentence(i, false) + "\t" + Sentence(i, true) + (i % 4 == 0 ? "\t0.9\n" : "\n");
  }
  const std::string path = corpus.dir.Write("train.tsv", table);
  corpus.options.train = {{path}};
  const StatusOr<PrepareReport> report = PrepareParallelCorpus(corpus.options);
  REQUIRE(report.ok());
  CHECK(std::count(report->notes.begin(), report->notes.end(),
                   path + ": 25 lines have more than two columns; the first two are used as "
                          "source and target") == 1);
  for (const std::string& note : report->notes) CHECK(note.find("dev.tsv") == std::string::npos);
}

TEST_CASE("carriage returns and byte order marks do not matter") {
  Corpus corpus;
  REQUIRE(PrepareParallelCorpus(corpus.options).ok());
  const std::string plain = ReadTestFile(corpus.Out("train.bin"));
  std::string text = "\xEF\xBB\xBF"s.append(Text(0, 400, false));
  for (size_t i = 0; (i = text.find('\n', i)) != std::string::npos; i += 2) text.insert(i, 1, '\r');
  corpus.dir.Write("train.en", text);
  corpus.options.output_dir = corpus.dir.File("windows");
  REQUIRE(PrepareParallelCorpus(corpus.options).ok());
  // The headers differ in the hash of the inputs.
  CHECK(ReadTestFile(corpus.Out("train.bin")).substr(128) == plain.substr(128));
}

}  // namespace
}  // namespace dtrain
