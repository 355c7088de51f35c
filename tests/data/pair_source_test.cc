// pair_source_test.cc - translation memories and JSON lines become sentence pairs.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/internal/pair_source.h"

#include <string>
#include <utility>
#include <vector>

#include "data/test_files.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/tasks/translation/prepare.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using internal::FoundPair;
using internal::PairSource;
using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Read {
  Pairs pairs;
  std::vector<int64_t> numbers;
  int64_t incomplete = 0;
  Status status;
};

Read ReadAll(StatusOr<std::unique_ptr<PairSource>> source) {
  Read all;
  all.status = source.status();
  while (all.status.ok()) {
    FoundPair pair;
    const StatusOr<bool> more = (*source)->Next(pair);
    all.status = more.status();
    if (!more.ok() || !*more) break;
    all.pairs.emplace_back(pair.source, pair.target);
    all.numbers.push_back(pair.number);
  }
  if (source.ok()) all.incomplete = (*source)->incomplete();
  return all;
}

struct Folder {
  Read Tmx(const std::string& body, const std::string& source = "en",
           const std::string& target = "de") const {
    return ReadAll(internal::OpenTmx(dir.Write("a.tmx", body), source, target, 1 << 20));
  }
  Read Json(const std::string& text) const {
    return ReadAll(internal::OpenJsonPairs(dir.Write("a.jsonl", text), "en", "de", 1 << 20));
  }
  TemporaryFolder dir;
};

// A file around units.
std::string Memory(const std::string& units) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE tmx SYSTEM \"tmx14.dtd\">\n"
         "<tmx version=\"1.4\"><header srclang=\"en\" segtype=\"sentence\"/><body>\n" +
         units + "</body></tmx>\n";
}

std::string Unit(const std::string& english, const std::string& german) {
  return "<tu tuid='1'>\n <tuv xml:lang=\"en\"><seg>" + english +
         "</seg></tuv>\n <tuv xml:lang=\"de\"><seg>" + german + "</seg></tuv>\n</tu>\n";
}

void CheckDataError(const Status& status, const std::string& part) {
  CHECK(status.code() == ExitCode::kData);
  CHECK_THAT(std::string(status.message()), Catch::Contains(part));
}

TEST_CASE("units of a translation memory become pairs, with their lines") {
  const Folder folder;
  const Read all =
      folder.Tmx(Memory(Unit("Hello &amp; welcome.", "Hallo und willkommen.") +
                        Unit("A &lt;b&gt; &#228;&#xF6;&quot;&apos;", "c &unknown; &")));
  REQUIRE(all.status.ok());
  CHECK(all.pairs ==
        Pairs{{"Hello & welcome.", "Hallo und willkommen."}, {"A <b> äö\"'", "c &unknown; &"}});
  CHECK(all.numbers == std::vector<int64_t>{4, 8});
}

TEST_CASE("inline codes are left out, highlighted text stays, lines are joined") {
  const Folder folder;
  const Read all = folder.Tmx(
      Memory(Unit("Open <bpt i=\"1\">&lt;b&gt;<sub>x</sub></bpt>file<ept i=\"1\"/>.",
                  "Datei <hi type='x'>öffnen</hi><ph>{0}</ph>.") +
             Unit("\n  two\n\tlines ", "<![CDATA[zwei <Zeilen>]]><!-- <tu> no unit -->")));
  REQUIRE(all.status.ok());
  CHECK(all.pairs == Pairs{{"Open file.", "Datei öffnen."}, {"two lines", "zwei <Zeilen>"}});
}

TEST_CASE("languages match with and without a region, the exact one first") {
  CHECK(internal::LanguageMatch("EN-US", "en") == 1);
  CHECK(internal::LanguageMatch("en", "en_GB") == 1);
  CHECK(internal::LanguageMatch("en-us", "EN_US") == 2);
  CHECK(internal::LanguageMatch("en-US", "en-GB") == 0);
  CHECK(internal::LanguageMatch("eng", "en") == 0);
  const Folder folder;
  const std::string unit =
      "<tu><tuv xml:lang=\"EN-US\"><seg>color</seg></tuv><tuv lang='en-GB'><seg>colour</seg></tuv>"
      "<tuv xml:lang=\"de-DE\"><seg>Farbe</seg></tuv></tu>";
  CHECK(folder.Tmx(Memory(unit)).pairs == Pairs{{"color", "Farbe"}});
  CHECK(folder.Tmx(Memory(unit), "en-gb", "de").pairs == Pairs{{"colour", "Farbe"}});
  CHECK(folder.Tmx(Memory(unit), "de", "en-US").pairs == Pairs{{"Farbe", "color"}});
}

TEST_CASE("units without both languages are counted, and a memory without any says what it has") {
  const Folder folder;
  const std::string french = "<tu><tuv xml:lang=\"fr\"><seg>oui</seg></tuv></tu>\n";
  const Read some = folder.Tmx(Memory(french + Unit("yes", "ja") + french));
  REQUIRE(some.status.ok());
  CHECK(some.pairs.size() == 1);
  CHECK(some.incomplete == 2);
  CheckDataError(folder.Tmx(Memory(french)).status,
                 "a.tmx: no unit has both en and de; the languages are: fr. Set "
                 "data.source_language and data.target_language");
  CHECK(folder.Tmx(Memory("")).pairs.empty());
}

TEST_CASE("what is no whole translation memory is a data error with its line") {
  const Folder folder;
  CheckDataError(folder.Tmx("just text\n").status, "a.tmx: is no TMX file");
  const std::string whole = Memory(Unit("a", "b") + Unit("c", "d"));
  CheckDataError(folder.Tmx(whole.substr(0, whole.find("<seg>d"))).status,
                 "the file ends inside a <tu>");
  CheckDataError(folder.Tmx(Memory("<tu><tuv xml:lang=\"en")).status,
                 "a.tmx:4: a tag is not closed");
  CheckDataError(folder.Tmx(Memory(Unit("a\xFF", "b"))).status, "a.tmx:4: invalid UTF-8");
  CheckDataError(folder.Tmx("\xFF\xFE<").status, "is UTF-16");
  CheckDataError(folder.Tmx("<tmx>" + std::string(3 << 20, 'x')).status, "no XML");
}

TEST_CASE("a translation memory may be packed and larger than a buffer") {
  const Folder folder;
  std::string units;
  for (int i = 0; i < 20000; ++i) units += Unit("one " + std::to_string(i), "eins");
  const Read all = folder.Tmx(testing::Gzip(Memory(units)));
  REQUIRE(all.status.ok());
  REQUIRE(all.pairs.size() == 20000);
  CHECK(all.pairs.back().first == "one 19999");
  CHECK(all.numbers.back() == 4 + 19999 * 4);
}

TEST_CASE("JSON lines give the texts of two keys, flat or as a translation") {
  const Folder folder;
  const Read all = folder.Json(
      "{\"en\": \"a\\nb\", \"de\": \"c\", \"id\": 3}\n\n"
      "{\"translation\": {\"de\": \"e\", \"en\": \"d\"}}\n{\"en\": \"only\"}\n");
  REQUIRE(all.status.ok());
  CHECK(all.pairs == Pairs{{"a b", "c"}, {"d", "e"}});
  CHECK(all.numbers == std::vector<int64_t>{1, 3});
  CHECK(all.incomplete == 1);
  CheckDataError(folder.Json("{\"src\": \"a\", \"tgt\": \"b\"}\n").status,
                 "no line has both \"en\" and \"de\"; the first one has: src, tgt.");
  CheckDataError(folder.Json("a\tb\n").status, "a.jsonl:1: no JSON object; each line must be like");
}

TEST_CASE("translation memories, JSON lines and pairs of files prepare the same corpus") {
  const TemporaryFolder dir;
  std::string units, json, english, german;
  for (int i = 0; i < 40; ++i) {
    const std::string e = "house number " + std::to_string(i);
    const std::string g = "Haus Nummer " + std::to_string(i);
    units += Unit(e, g);
    json += "{\"en\": \"" + e + "\", \"de\": \"" + g + "\"}\n";
    english += e + "\n";
    german += g + "\n";
  }
  const auto prepare = [&](ParallelInput input, const std::string& name) {
    const PrepareOptions options{.train = {std::move(input)},
                                 .hold_out_dev = 0,
                                 .hold_out_test = 0,
                                 .output_dir = dir.File(name),
                                 .bpe = {.vocab_size = 60}};
    const StatusOr<PrepareReport> report = PrepareParallelCorpus(options);
    INFO(report.status().message());
    REQUIRE(report.ok());
    CHECK(report->train.pairs == 40);
    return ReadTestFile(dir.File(name) + "/vocab.spm");
  };
  const std::string lines =
      prepare({dir.Write("a.en", english), dir.Write("a.de", german)}, "lines");
  CHECK(prepare({.source = dir.Write("a.tmx", Memory(units)),
                 .format = PairFormat::kTmx,
                 .source_language = "en",
                 .target_language = "de"},
                "tmx") == lines);
  CHECK(prepare({.source = dir.Write("a.jsonl", json),
                 .format = PairFormat::kJsonLines,
                 .source_language = "en",
                 .target_language = "de"},
                "json") == lines);
}

}  // namespace
}  // namespace dtrain
