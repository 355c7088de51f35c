// delimited_reader_test.cc - CSV, TSV and JSON lines as written by others, and broken ones.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/delimited_reader.h"

#include <string>
#include <vector>

#include "data/test_files.h"
#include "dtrain/base/random.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using namespace std::string_literals;
using Rows = std::vector<std::vector<std::string>>;

DelimitedOptions Wanting(const std::vector<std::string>& names) {
  DelimitedOptions options;
  for (const std::string& name : names) options.columns.push_back({name});
  return options;
}

struct ReadRows {
  Rows rows;                          // of rows without a problem; "<absent>" for absent fields
  std::vector<std::string> problems;  // of the others
};

ReadRows ReadAll(const std::string& path, const DelimitedOptions& options) {
  StatusOr<DelimitedReader> reader = DelimitedReader::Open(path, options);
  INFO(reader.status().message());
  REQUIRE(reader.ok());
  ReadRows all;
  for (RecordBlock block;;) {
    const StatusOr<bool> more = reader->NextBlock(block);
    REQUIRE(more.ok());
    if (!*more) return all;
    REQUIRE(block.size() > 0);
    for (int64_t i = 0; i < block.size(); ++i) {
      if (block.row(i).problem != RowProblem::kNone) {
        all.problems.push_back(reader->DescribeProblem(block.row(i)).substr(path.size()));
        continue;
      }
      all.rows.emplace_back();
      for (size_t c = 0; c < options.columns.size(); ++c) {
        const std::string_view field = block.field(i, static_cast<int64_t>(c));
        all.rows.back().emplace_back(field.data() == nullptr ? "<absent>" : field);
      }
    }
  }
}

struct Folder {
  ReadRows Read(const std::string& name, const std::string& text,
                const DelimitedOptions& options) const {
    return ReadAll(dir.Write(name, text), options);
  }
  TemporaryFolder dir;
};

void CheckRefused(const std::string& path, const DelimitedOptions& options,
                  const std::string& text) {
  const Status status = DelimitedReader::Open(path, options).status();
  CHECK(status.code() == ExitCode::kData);
  CHECK_THAT(std::string(status.message()), Catch::Contains(path + ": "));
  CHECK_THAT(std::string(status.message()), Catch::Contains(text));
}

TEST_CASE("what a header holds is shown without what a terminal would obey, and not at length") {
  const TemporaryFolder dir;
  const auto refused = [&](const std::string& text) {
    return std::string(DelimitedReader::Open(dir.Write("a.csv", text), Wanting({"te\x1b[31mxt"}))
                           .status()
                           .message());
  };
  CHECK_THAT(
      refused("text\x1b[31mX\a,label\n"),
      Catch::EndsWith("no column \"te\\x1b[31mxt\"; the file has: text\\x1b[31mX\\x07, label"));
  std::string wide = "a";
  for (int i = 0; i < 500; ++i) wide += ",column" + std::to_string(i);
  CHECK_THAT(refused(wide + "\n"), Catch::EndsWith("column18 and 481 more"));
  CHECK(refused(std::string(100'000, 'x') + "\n").size() < 300);
}

TEST_CASE("a table whose lines end with lone carriage returns is refused with the remedy") {
  const TemporaryFolder dir;
  const std::string text = "text,label\ropen the file 0,0\ropen the file 1,1\r";
  for (const char* const name : {"a.csv", "a.tsv", "a.jsonl"}) {
    const Status status = DelimitedReader::Open(dir.Write(name, text), Wanting({"text"})).status();
    CHECK(status.code() == ExitCode::kData);
    CHECK_THAT(
        std::string(status.message()),
        Catch::EndsWith(": its lines end with a lone carriage return, as on old Macs; convert "
                        "it with tr '\\r' '\\n'"));
  }
  // A carriage return elsewhere is text.
  CHECK(ReadAll(dir.Write("b.csv", "text\na\rb\n"), Wanting({"text"})).rows == Rows{{"a\rb"}});
}

TEST_CASE("bytes that are no text are replaced where that is wanted, and the row says so") {
  const TemporaryFolder dir;
  DelimitedOptions options = Wanting({"text", "id"});
  options.invalid = InvalidText::kReplace;
  const std::string path = dir.Write("a.csv", "id,text\n1,a\xFF\n2,good\n3,n\0l\n"s);
  const ReadRows all = ReadAll(path, options);
  CHECK(all.problems.empty());
  options.invalid = InvalidText::kSkip;
  CHECK(ReadAll(path, options).rows == Rows{{"", "1"}, {"good", "2"}, {"", "3"}});
  options.invalid = InvalidText::kReplace;
  CHECK(all.rows == Rows{{"a\uFFFD", "1"}, {"good", "2"}, {"n\uFFFDl", "3"}});
  DelimitedReader reader = *DelimitedReader::Open(path, options);
  RecordBlock block;
  REQUIRE(*reader.NextBlock(block));
  const RecordBlock moved = std::move(block);
  CHECK(moved.row(0).mended);
  CHECK_FALSE(moved.row(1).mended);
  CHECK(moved.field(2, 0) == "n\uFFFDl");
}

TEST_CASE("CSV with quotes, newlines, carriage returns and a byte order mark") {
  const Folder folder;
  const ReadRows all = folder.Read("a.csv",
                                   "\xEF\xBB\xBFid,text,label\r\n"
                                   "1,plain,a\r\n"
                                   "\r\n"
                                   "2,\"with, comma\",b\n"
                                   "3,\"two\nlines \"\"quoted\"\"\",\n"
                                   "4,5\" disk,\"\"\n"
                                   "5,\"\"\"\",last",
                                   Wanting({"label", "text"}));
  CHECK(all.rows == Rows{{"a", "plain"},
                         {"b", "with, comma"},
                         {"", "two\nlines \"quoted\""},
                         {"", "5\" disk"},
                         {"last", "\""}});
  CHECK(all.problems.empty());
}

TEST_CASE("TSV keeps quotes as they are and may have more fields than wanted") {
  const Folder folder;
  const ReadRows all = folder.Read("a.tsv", "q1\tq2\ty\n\"a\tb\"\t1\textra\r\n\n\t\t0\n",
                                   Wanting({"q1", "q2", "2"}));
  CHECK(all.rows == Rows{{"\"a", "b\"", "1"}, {"", "", "0"}});
}

TEST_CASE("columns by number, from the end too, without a header") {
  const Folder folder;
  DelimitedOptions options = Wanting({"3", "-1", "1"});
  options.header = false;
  CHECK(folder.Read("a.tsv", "gj\t1\t\ttext\ngj\t0\t*\tmore\tlast\n", options).rows ==
        Rows{{"text", "text", "1"}, {"more", "last", "0"}});
  options.delimiter = ';';
  CHECK(folder.Read("a.csv", "a;b;c;\"d;\"\n", options).rows == Rows{{"d;", "d;", "b"}});
}

TEST_CASE("JSON lines give text, numbers and words as text") {
  const Folder folder;
  DelimitedOptions options = Wanting({"text", "label"});
  options.columns.push_back({.name = "id", .required = false});
  const ReadRows all = folder.Read(
      "a.jsonl",
      R"({"text": "a \"q\" \\ \/ \n \u00e9 \ud83d\ude00", "label": 1, "x": {"y": [1, {"z": []}]}})"
      "\r\n \n"
      R"({"label":true,"text":"","id":-1.5e3})"
      "\n"
      R"( { "id" : null , "text":"x", "text":"y","label":"z" } )",
      options);
  CHECK(all.problems.empty());
  CHECK(all.rows == Rows{{"a \"q\" \\ / \n \u00e9 \U0001F600", "1", "<absent>"},
                         {"", "true", "-1.5e3"},
                         {"y", "z", "<absent>"}});
}

TEST_CASE("an optional column may be absent from the header") {
  const Folder folder;
  DelimitedOptions options = Wanting({"text"});
  options.columns.push_back({.name = "label", .required = false});
  const std::string path = folder.dir.Write("a.csv", "text\nx\n");
  CHECK(ReadAll(path, options).rows == Rows{{"x", "<absent>"}});
}

TEST_CASE("a column may be wanted twice") {
  const Folder folder;
  CHECK(folder.Read("a.csv", "a,b\n\"x \"\"\"\"\",y\n", Wanting({"a", "0", "a"})).rows ==
        Rows{{"x \"\"", "x \"\"", "x \"\""}});
  CHECK(folder.Read("a.jsonl", "{\"a\":\"\\n\"}\n", Wanting({"a", "a"})).rows ==
        Rows{{"\n", "\n"}});
}

TEST_CASE("compressed files are read by their content") {
  const Folder folder;
  CHECK(folder.Read("a.csv.gz", testing::Gzip("a,b\n1,2\n"), Wanting({"b"})).rows == Rows{{"2"}});
  CHECK(folder.Read("a.tsv.zst", testing::Zstd("a\tb\n1\t2\n"), Wanting({"b"})).rows ==
        Rows{{"2"}});
}

TEST_CASE("capitals in a name do not hide what a file is") {
  const Folder folder;
  CHECK(folder.Read("A.CSV", "a,b\n1,2\n", Wanting({"b"})).rows == Rows{{"2"}});
  CHECK(folder.Read("a.Tsv.GZ", testing::Gzip("a\tb\n1\t2\n"), Wanting({"b"})).rows == Rows{{"2"}});
}

TEST_CASE("broken CSV rows are named by line, row and column, and the others are read") {
  const Folder folder;
  const ReadRows all = folder.Read("a.csv",
                                   "id,text,label\n"
                                   "1,ok,a\n"
                                   "2,\"He said \"hi\" to me\",b\n"
                                   "3,\"two\nlines\",c\n"
                                   "4,short\n"
                                   "5,one,too,many\n"
                                   "6,bad \xFF,d\n"
                                   "7,nul \0,e\n"
                                   "8,ok,f\n"
                                   "9,\"never closed,g\n"
                                   "10,ok,h\n"s,
                                   Wanting({"text", "label"}));
  CHECK(all.rows == Rows{{"ok", "a"}, {"two\nlines", "c"}, {"ok", "f"}, {"ok", "h"}});
  REQUIRE(all.problems.size() == 6);
  CHECK(
      all.problems[0] ==
      ":3: row 2, column \"text\": text after a closing quote; write a quote inside a quoted field "
      "twice");
  CHECK(all.problems[1] == ":6: row 4, column \"label\": 2 fields where the header has 3");
  CHECK(all.problems[2] == ":7: row 5: 4 fields where the header has 3");
  CHECK_THAT(all.problems[3], Catch::StartsWith(":8: row 6, column \"text\": invalid UTF-8"));
  CHECK_THAT(all.problems[4], Catch::StartsWith(":9: row 7, column \"text\": a NUL byte"));
  CHECK_THAT(all.problems[5],
             Catch::StartsWith(":11: row 9, column \"text\": a quote is not closed"));
}

TEST_CASE("short TSV rows and broken JSON are named") {
  const Folder folder;
  const ReadRows tsv =
      folder.Read("a.tsv", "q1\tq2\ty\na\tb\t1\na\nc\td\t0\n", Wanting({"q1", "y"}));
  CHECK(tsv.rows == Rows{{"a", "1"}, {"c", "0"}});
  CHECK(tsv.problems == std::vector<std::string>{
                            ":3: row 2, column \"y\": only 1 fields; is a delimiter missing?"});

  const ReadRows json = folder.Read("a.jsonl",
                                    "{\"text\": \"a\"\n"
                                    "{\"text\": {}}\n"
                                    "{\"other\": 1}\n"
                                    "{\"text\": null}\n"
                                    "[1]\n"
                                    "{\"text\": \"\\ud800 alone\"}\n"
                                    "{\"text\": \"good\"}\n",
                                    Wanting({"text"}));
  CHECK(json.rows == Rows{{"good"}});
  REQUIRE(json.problems.size() == 6);
  CHECK_THAT(json.problems[0], Catch::StartsWith(":1: row 1: not valid JSON: no comma between"));
  CHECK_THAT(json.problems[1], Catch::StartsWith(":2: row 2, column \"text\": an object or array"));
  CHECK_THAT(json.problems[2], Catch::StartsWith(":3: row 3, column \"text\": has no such key"));
  CHECK_THAT(json.problems[3], Catch::StartsWith(":4: row 4, column \"text\": has no such key"));
  CHECK_THAT(json.problems[4], Catch::Contains("give one object per line"));
  CHECK_THAT(json.problems[5], Catch::Contains("half a surrogate pair"));
}

TEST_CASE("wrong JSON of every kind is no JSON") {
  const Folder folder;
  for (const char* const line : {"{\"a\" 1}",
                                 "{\"a\":}",
                                 "{\"a\":01}",
                                 "{\"a\":1.}",
                                 "{\"a\":1e}",
                                 "{\"a\":tru}",
                                 "{\"a\":\"x}",
                                 "{\"a\":\"\\x\"}",
                                 "{\"a\":\"\\u12g4\"}",
                                 "{\"a\":1}{",
                                 "{,}",
                                 "{\"a\":1,}",
                                 "{\"a\":[1,]}",
                                 "{\"a\":[1 2]}",
                                 "nothing",
                                 "{a:1}",
                                 "{\"a\":\"\\ud800\\u0041\"}",
                                 "{\"a\":\"\\udc00\"}",
                                 "{\"a\":-}",
                                 "{\"a\":\"tab\there\"}"}) {
    INFO(line);
    const ReadRows all = folder.Read("a.jsonl", line, Wanting({"a"}));
    REQUIRE(all.problems.size() == 1);
    CHECK_THAT(all.problems[0], Catch::Contains("not valid JSON"));
  }
  std::string deep = "{\"b\":" + std::string(100, '[') + std::string(100, ']') + "}";
  CHECK_THAT(folder.Read("a.jsonl", deep, Wanting({"a"})).problems.at(0),
             Catch::Contains("nested too deep"));
}

TEST_CASE("records longer than allowed are problems, wherever blocks end") {
  const Folder folder;
  const std::string megabyte(1 << 20, 'x');
  DelimitedOptions options = Wanting({"text"});
  CHECK(folder.Read("a.csv", "id,text\n1,\"" + megabyte + "\"\n2,b\n", options).rows ==
        Rows{{megabyte}, {"b"}});

  options.max_record_bytes = 100;
  const std::string long_text(250, 'x');
  for (const int64_t block_bytes : {7, 50, 120, 1000, 100000}) {
    options.block_bytes = block_bytes;
    const ReadRows csv = folder.Read(
        "a.csv", "id,text\n1,a\n2," + long_text + "\n3,c\n4,\"" + long_text + "\n5,\"e\ne\"\n",
        options);
    CHECK(csv.rows == Rows{{"a"}, {"c"}, {"e\ne"}});
    CHECK(csv.problems ==
          std::vector<std::string>{
              ":3: row 2: longer than 100 bytes; is this the right format?",
              ":5: row 4: a quote is not closed within 100 bytes; is one missing?"});
    const ReadRows tsv =
        folder.Read("a.tsv", "text\na\n" + long_text + "\nc\n" + long_text, options);
    CHECK(tsv.rows == Rows{{"a"}, {"c"}});
    CHECK(tsv.problems.size() == 2);
  }
}

TEST_CASE("rows do not depend on where blocks end") {
  const Folder folder;
  RandomStream random({.seed = 3});
  constexpr std::string_view kAlphabet = "ab\"\"\",\n\r\nc";
  for (int round = 0; round < 40; ++round) {
    std::string text = "a,b\n";
    for (int i = 0; i < 400; ++i) text += kAlphabet[random.NextBelow(kAlphabet.size())];
    DelimitedOptions options = Wanting({"a", "b"});
    const ReadRows whole = folder.Read("a.csv", text, options);
    options.block_bytes = 1 + random.NextBelow(40);
    const ReadRows parts = folder.Read("a.csv", text, options);
    REQUIRE(whole.rows == parts.rows);
    REQUIRE(whole.problems == parts.problems);
  }
}

TEST_CASE("in files of one column blank lines are empty fields, but for those at the end") {
  const Folder folder;
  for (const int64_t block_bytes : {1, 5, 100000}) {
    DelimitedOptions options = Wanting({"text"});
    options.block_bytes = block_bytes;
    options.max_record_bytes = 10;
    CHECK(folder.Read("a.tsv", "\ntext\na\n\n\r\nb\n\n\r\n", options).rows ==
          Rows{{"a"}, {""}, {""}, {"b"}});
    CHECK(folder.Read("a.csv", "text\n\n\"a\n\n\"\n\nb", options).rows ==
          Rows{{""}, {"a\n\n"}, {""}, {"b"}});
    for (const char* const name : {"broken.csv", "broken.tsv"}) {
      const ReadRows broken =
          folder.Read(name, "text\n\n" + std::string(20, 'x') + "\n\n\n\xFF\nb\n", options);
      CHECK(broken.rows == Rows{{""}, {""}, {""}, {"b"}});
      REQUIRE(broken.problems.size() == 2);
      CHECK_THAT(broken.problems[0], Catch::StartsWith(":3: row 2: longer than 10 bytes"));
      CHECK_THAT(broken.problems[1], Catch::StartsWith(":6: row 5, column \"text\": invalid"));
    }
    DelimitedOptions bare = Wanting({"0", "-1"});
    bare.header = false;
    bare.block_bytes = block_bytes;
    for (const char* const name : {"bare.csv", "bare.tsv"}) {
      CHECK(folder.Read(name, "\na\n\nb\n\n", bare).rows ==
            Rows{{"", ""}, {"a", "a"}, {"", ""}, {"b", "b"}});
    }
    CHECK(folder.Read("two.tsv", "\na\tb\n\nc\td\n", bare).rows == Rows{{"a", "b"}, {"c", "d"}});
    CHECK(folder.Read("two.csv", "\na,b\n\nc,d\n", bare).rows == Rows{{"a", "b"}, {"c", "d"}});
    CHECK(folder.Read("a.jsonl", "{\"text\":1}\n\n{\"text\":2}\n", Wanting({"text"})).rows ==
          Rows{{"1"}, {"2"}});
  }
}

TEST_CASE("files that cannot be read as a table are refused with what to do") {
  const TemporaryFolder dir;
  CheckRefused(dir.File("none.csv"), Wanting({"a"}), "No such file");
  CheckRefused(dir.Write("data.bin", "a,b\n"), Wanting({"a"}),
               "the file name does not tell the format; name it .csv, .tsv or .jsonl");
  CheckRefused(dir.Write("semicolons.csv", "text;label\n"), Wanting({"text"}),
               "the file has: text;label; its fields are separated by ';': save it with commas");
  CheckRefused(dir.Write("empty.csv", ""), Wanting({"a"}), "is empty");
  CheckRefused(dir.Write("blank.csv", "\n\n"), Wanting({"a"}), "not even a header");
  CheckRefused(dir.Write("wide.csv", "\xFF\xFE" + "a\0,\0"s), Wanting({"a"}), "is UTF-16");
  CheckRefused(dir.Write("names.csv", "id,comment,target\n1,x,0\n"), Wanting({"comment_text"}),
               "no column \"comment_text\"; the file has: id, comment, target");
  CheckRefused(dir.Write("names.tsv", "a\tb\n"), Wanting({"2"}), "no column \"2\"");
  CheckRefused(dir.Write("twice.csv", "a,a\n1,2\n"), Wanting({"a"}), "two columns are named \"a\"");
  const std::string broken = dir.Write("broken.csv", "a,\"b\n1,2\n");
  const Status status = DelimitedReader::Open(broken, Wanting({"a"})).status();
  CHECK(status.code() == ExitCode::kData);
  CHECK_THAT(std::string(status.message()),
             Catch::Contains(":1: the header is broken: unclosed quote"));
  DelimitedOptions options = Wanting({"text"});
  options.header = false;
  CheckRefused(dir.Write("bare.csv", "1,2\n"), options, "without a header columns are numbers");
  for (const char* const number : {"4294967296", "-2147483648", "99999999999999999999"}) {
    options = Wanting({number});
    CheckRefused(dir.Write("few.csv", "a,b\n"), options, "no column \""s + number + "\"");
    options.header = false;
    CheckRefused(dir.Write("few.csv", "1,2\n"), options, "no column \""s + number + "\"");
  }
}

TEST_CASE("fields that have no column number in a row are named without a header") {
  const Folder folder;
  DelimitedOptions options = Wanting({"5"});
  options.header = false;
  CHECK(folder.Read("a.csv", "1,2\n", options).problems ==
        std::vector<std::string>{":1: row 1, column 5: only 2 fields; is a delimiter missing?"});
}

TEST_CASE("lines are counted rightly behind texts with doubled quotes and newlines") {
  const Folder folder;
  const ReadRows all = folder.Read("a.csv",
                                   "text,label\n"
                                   "\"\"\"\"\"\"\"one\"\"\n\n\ntwo\n\",a\n"
                                   "short\n",
                                   Wanting({"text", "label"}));
  CHECK(all.rows == Rows{{"\"\"\"one\"\n\n\ntwo\n", "a"}});
  REQUIRE(all.problems.size() == 1);
  CHECK_THAT(all.problems[0], Catch::StartsWith(":7: row 2"));
}

}  // namespace
}  // namespace dtrain
