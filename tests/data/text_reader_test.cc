// text_reader_test.cc - lines of good and bad files, compressed or not.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/text_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/test_files.h"
#include "dtrain/base/utf8.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using testing::Gzip;
using testing::Zstd;
using namespace std::string_literals;

using Lines = std::vector<std::string>;

StatusOr<Lines> ReadLines(const std::string& path, TextReaderOptions options = {}) {
  DT_ASSIGN_OR_RETURN(TextReader reader, TextReader::Open(path, options));
  Lines lines;
  TextLine line;
  for (;;) {
    DT_ASSIGN_OR_RETURN(const bool more, reader.Next(line));
    if (!more) return lines;
    lines.emplace_back(line.text);
    if (line.number != static_cast<int64_t>(lines.size())) return InternalError("line number");
  }
}

StatusOr<int64_t> CountPairs(StatusOr<ParallelTextReader> reader) {
  if (!reader.ok()) return reader.status();
  TextPair pair;
  int64_t count = 0;
  for (;;) {
    DT_ASSIGN_OR_RETURN(const bool more, reader->Next(pair));
    if (!more) return count;
    ++count;
  }
}

// Checks the exit code and that the message holds all the parts.
void CheckDataError(const Status& status, const Lines& parts) {
  CHECK(status.code() == ExitCode::kData);
  for (const std::string& part : parts) {
    CHECK_THAT(std::string(status.message()), Catch::Contains(part));
  }
}

TEST_CASE("a text reader gives the lines of plain, gzip and Zstandard files") {
  const TemporaryFolder dir;
  const std::string text = "first\n\nzweite Zeile: \xC3\xA4\nlast without newline";
  const Lines expected = {"first", "", "zweite Zeile: \xC3\xA4", "last without newline"};
  CHECK(*ReadLines(dir.Write("plain", text)) == expected);
  CHECK(*ReadLines(dir.Write("named.txt", Gzip(text))) == expected);
  CHECK(*ReadLines(dir.Write("named.gz", Zstd(text))) == expected);
  CHECK(*ReadLines(dir.Write("members", Gzip("a\nb") + Gzip("c\n"))) == Lines{"a", "bc"});
  CHECK(*ReadLines(dir.Write("frames", Zstd("a\nb") + Zstd("c\n"))) == Lines{"a", "bc"});
  CHECK(ReadLines(dir.Write("empty", ""))->empty());
  CHECK(*ReadLines(dir.Write("one", "\n")) == Lines{""});
}

TEST_CASE("a line without a visible character is blank, whatever it holds") {
  for (const std::string& blank :
       {""s, " \t\r\v"s, "\xC2\xA0"s, "\xE3\x80\x80"s, "\xE2\x80\x8B\xEF\xBB\xBF"s, "\xE2\x80\xA8"s,
        "\xC2\xAD"s, "\xE3\x85\xA4"s, "\xE2\xA0\x80"s, "\xC2\x85\x7F"s, "\0"s}) {
    CHECK(IsBlank(blank));
  }
  for (const std::string& visible : {"."s, "\t.\t"s, "\xC2\xA0x"s, "\xCC\x81"s, "\xFF"s}) {
    CHECK_FALSE(IsBlank(visible));
  }
}

TEST_CASE("invalid lines are replaced or emptied, named and counted, where that is wanted") {
  const TemporaryFolder dir;
  std::string text = "good\nb\xFF"s + "d\xC3\nn\0ul\n"s;
  CHECK(*ReadLines(dir.Write("a", text), {.invalid = InvalidText::kReplace}) == Lines{"good",
                                                                                      "b\uFFFD"
                                                                                      "d\uFFFD",
                                                                                      "n\uFFFDul"});
  CHECK(*ReadLines(dir.Write("a", text), {.invalid = InvalidText::kSkip}) == Lines{"good", "", ""});
  CheckDataError(ReadLines(dir.Write("a", text)).status(), {"a:2: invalid UTF-8"});
  for (int i = 0; i < 10; ++i) text += "\xFF\n";
  TextReader reader = *TextReader::Open(dir.Write("a", text), {.invalid = InvalidText::kReplace});
  CHECK(reader.DescribeInvalid().empty());
  TextLine line;
  while (*reader.Next(line)) {
  }
  CHECK_THAT(
      reader.DescribeInvalid(),
      Catch::EndsWith("a: 12 lines are not UTF-8 or hold NUL bytes, where U+FFFD replaces the "
                      "bad bytes (lines 2, 3, 4, 5, 6, ...)"));
  // What is too long cannot be mended.
  CheckDataError(ReadLines(dir.Write("a", "ok\n" + std::string(100, 'x')),
                           {.max_line_bytes = 50, .invalid = InvalidText::kReplace})
                     .status(),
                 {"a:2: the line is too long"});
  CHECK(ParseInvalidText("--invalid", "ignore").status().message() ==
        "--invalid is one of replace, skip, fail, not \"ignore\"");
}

TEST_CASE("a reader of a pipe knows when no further line is there") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const std::string path = "/proc/self/fd/" + std::to_string(ends[0]);
  const auto write = [&](std::string_view text) {
    REQUIRE(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  };
  write("one\ntwo\nthr");
  TextReader reader = *TextReader::Open(path);
  TextLine line;
  REQUIRE(*reader.Next(line));
  CHECK_FALSE(reader.InputPauses(0));  // the second line
  REQUIRE(*reader.Next(line));
  CHECK(line.text == "two");
  CHECK(reader.InputPauses(1));  // of the third there is a part
  write("ee\n");
  CHECK_FALSE(reader.InputPauses(0));
  REQUIRE(*reader.Next(line));
  CHECK(line.text == "three");
  CHECK(reader.InputPauses(0));
  ::close(ends[1]);
  CHECK_FALSE(reader.InputPauses(0));  // the end need not be waited for
  CHECK_FALSE(*reader.Next(line));
  ::close(ends[0]);
  const TemporaryFolder dir;
  TextReader file = *TextReader::Open(dir.Write("file", "a\nb\n"));
  while (*file.Next(line)) CHECK_FALSE(file.InputPauses(0));
}

TEST_CASE("a reader tells that it left out a byte order mark") {
  const TemporaryFolder dir;
  CHECK(TextReader::Open(dir.Write("a", "\xEF\xBB\xBFx\n"))->had_byte_order_mark());
  CHECK_FALSE(TextReader::Open(dir.Write("a", "x\n"))->had_byte_order_mark());
}

TEST_CASE("a text reader gives lines that cross its buffers") {
  const TemporaryFolder dir;
  std::string text;
  Lines expected;
  for (int i = 0; i < 3000; ++i) {
    expected.push_back(std::string(static_cast<size_t>(i), static_cast<char>('a' + i % 26)));
    text += expected.back() + "\n";
  }
  expected.push_back(std::string(900'000, 'x'));
  text += expected.back() + "\n";
  CHECK(*ReadLines(dir.Write("plain", text)) == expected);
  CHECK(*ReadLines(dir.Write("gz", Gzip(text))) == expected);
  CHECK(*ReadLines(dir.Write("zst", Zstd(text))) == expected);
  // As pzstd writes: the length of each frame in a frame to be skipped.
  const std::string skipped("\x50\x2A\x4D\x18\x04\0\0\0size", 12);
  const std::string pieces = skipped + Zstd(text.substr(0, 999)) + skipped + Zstd(text.substr(999));
  CHECK(*ReadLines(dir.Write("pzst", pieces)) == expected);
}

TEST_CASE("a byte order mark and carriage returns are taken off") {
  const TemporaryFolder dir;
  CHECK(*ReadLines(dir.Write("crlf", "\xEF\xBB\xBFone\r\n\r\ntwo\r\n")) == Lines{"one", "", "two"});
  CHECK(*ReadLines(dir.Write("bom", "\xEF\xBB\xBF")) == Lines{});
  CHECK(*ReadLines(dir.Write("inner", "a\rb\n")) == Lines{"a\rb"});
}

TEST_CASE("files that cannot be read are data errors that name the path") {
  const TemporaryFolder dir;
  CheckDataError(ReadLines(dir.File("missing")).status(),
                 {"/missing: cannot be opened", "No such"});
  CheckDataError(ReadLines(dir.path()).status(), {dir.path() + ": is a directory"});
  CheckDataError(ReadLines(dir.Write("utf16", "\xFF\xFE"s + "a\0"s)).status(),
                 {"/utf16: is UTF-16", "iconv"});
  const std::string gz = Gzip("some text to compress\n");
  CheckDataError(ReadLines(dir.Write("short.gz", gz.substr(0, gz.size() - 6))).status(),
                 {"/short.gz: damaged gzip", "too early"});
  std::string broken = gz;
  broken[gz.size() - 6] ^= 1;  // in the checksum
  CheckDataError(ReadLines(dir.Write("broken.gz", broken)).status(), {"damaged gzip"});
  const std::string zst = Zstd("some text to compress\n");
  CheckDataError(ReadLines(dir.Write("short.zst", zst.substr(0, zst.size() - 3))).status(),
                 {"/short.zst: damaged Zstandard", "too early"});
}

TEST_CASE("bad lines are data errors with path and line") {
  const TemporaryFolder dir;
  CheckDataError(ReadLines(dir.Write("latin1", "gut\nsch\xF6n\n")).status(),
                 {"/latin1:2: invalid UTF-8", "iconv"});
  CheckDataError(ReadLines(dir.Write("nul", "a\nb\nc\0d\n"s)).status(), {"/nul:3: a NUL byte"});
  const std::string long_line = "ok\n" + std::string(1 << 20, 'x') + "y\nok\n";
  CheckDataError(ReadLines(dir.Write("long", long_line)).status(),
                 {"/long:2: the line is too long", "limit 1048576"});
  CheckDataError(ReadLines(dir.Write("short", "12345\n123456\n"), {.max_line_bytes = 5}).status(),
                 {"/short:2: the line is too long"});
}

TEST_CASE("a line without an end is too long as soon as it is") {
  CheckDataError(ReadLines("/dev/zero").status(), {"/dev/zero:1: the line is too long"});
}

TEST_CASE("bad lines are handed out with their problem on request") {
  const TemporaryFolder dir;
  const std::string path = dir.Write("bad", "good\nsch\xF6n\nn\0l\n"s + std::string(3 << 20, 'x') +
                                                "\nafter\n" + std::string(2 << 20, 'y'));
  StatusOr<TextReader> reader = TextReader::Open(path, {.report_problems = true});
  REQUIRE(reader.ok());
  std::vector<LineProblem> problems;
  TextLine line;
  while (*reader->Next(line)) {
    problems.push_back(line.problem);
    if (line.number == 5) CHECK(line.text == "after");
  }
  CHECK(problems == std::vector<LineProblem>{LineProblem::kNone, LineProblem::kInvalidUtf8,
                                             LineProblem::kNulByte, LineProblem::kTooLong,
                                             LineProblem::kNone, LineProblem::kTooLong});
}

TEST_CASE("a parallel reader pairs two files") {
  const TemporaryFolder dir;
  StatusOr<ParallelTextReader> reader = ParallelTextReader::Open(
      dir.Write("a.en", "one\ntwo\n"), dir.Write("a.de", Gzip("eins\r\nzwei")));
  REQUIRE(reader.ok());
  TextPair pair;
  REQUIRE(*reader->Next(pair));
  CHECK(pair.source == "one");
  CHECK(pair.target == "eins");
  REQUIRE(*reader->Next(pair));
  CHECK(pair.target == "zwei");
  CHECK(pair.number == 2);
  CHECK_FALSE(*reader->Next(pair));
  CHECK(reader->Locate(2, true) == dir.File("a.de") + ":2");
}

// What `body` returns in a process without root's rights.
template <typename Body>
std::string WithoutRights(const Body& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    const std::string text = geteuid() == 0 && setuid(kNobody) != 0 ? "setuid failed" : body();
    const bool written = write(ends[1], text.data(), text.size()) >= 0;
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string text(1000, '\0');
  const ssize_t count = read(ends[0], text.data(), text.size());
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return text;
}

TEST_CASE("a file that may not be read is a data error with the system's reason") {
  const TemporaryFolder dir;
  const std::string path = dir.Write("secret.en", "text\n");
  std::filesystem::permissions(dir.path(), std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const std::string message = WithoutRights([&] {
    const Status status = TextReader::Open(path).status();
    return std::to_string(static_cast<int>(status.code())) + " " + std::string(status.message());
  });
  if (message == "setuid failed") return;  // a container whose root is the only user
  CHECK_THAT(message, Catch::StartsWith("3 ") && Catch::Contains("/secret.en: cannot be opened") &&
                          Catch::Contains("Permission denied"));
}

TEST_CASE("unequal line counts are a data error that names both counts") {
  const TemporaryFolder dir;
  const std::string two = dir.Write("two", "1\n2\n");
  const std::string five = dir.Write("five", "1\n2\n3\n4\n5");
  CheckDataError(CountPairs(ParallelTextReader::Open(two, five)).status(),
                 {"/two has 2 lines", "/five has 5"});
  CheckDataError(CountPairs(ParallelTextReader::Open(five, two)).status(),
                 {"/five has 5 lines", "/two has 2"});
}

TEST_CASE("a parallel reader splits a TSV at its first tab and ignores further columns") {
  const TemporaryFolder dir;
  StatusOr<ParallelTextReader> reader =
      ParallelTextReader::OpenTsv(dir.Write("t.tsv", "one\teins\tCC-BY\ntwo\t\n"));
  REQUIRE(reader.ok());
  TextPair pair;
  REQUIRE(*reader->Next(pair));
  CHECK(pair.source == "one");
  CHECK(pair.target == "eins");
  REQUIRE(*reader->Next(pair));
  CHECK(pair.target.empty());
  CheckDataError(
      CountPairs(ParallelTextReader::OpenTsv(dir.Write("no.tsv", "a\tb\nno\n"))).status(),
      {"/no.tsv:2: no tab"});
}

TEST_CASE("UTF-8 validation refuses what RFC 3629 refuses") {
  CHECK(IsValidUtf8("ASCII of more than eight bytes"));
  CHECK(IsValidUtf8("\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80 after \xEF\xBF\xBF"));
  CHECK_FALSE(IsValidUtf8("\xC0\x80"));          // overlong
  CHECK_FALSE(IsValidUtf8("\xE0\x9F\xBF"));      // overlong
  CHECK_FALSE(IsValidUtf8("\xED\xA0\x80"));      // surrogate
  CHECK_FALSE(IsValidUtf8("\xF4\x90\x80\x80"));  // past U+10FFFF
  CHECK_FALSE(IsValidUtf8("\x80"));
  CHECK_FALSE(IsValidUtf8("12345678\xC3"));  // cut short
  CHECK(ValidUtf8Prefix("12345678ab\xFFz") == 10);
}

TEST_CASE("files compressed in a way that is not read are named with what to do") {
  const TemporaryFolder dir;
  const std::pair<std::string, std::string> files[] = {{"xz",
                                                        "\xFD"
                                                        "7zXZ\0\0\4"s},
                                                       {"bzip2", "BZh91AY&SY\1\2"},
                                                       {"zip", "PK\3\4\24"}};
  for (const auto& [format, content] : files) {
    const std::string path = dir.Write("train.en", content);
    const Status status = TextReader::Open(path).status();
    CHECK(status.code() == ExitCode::kData);
    CHECK(status.message() ==
          path + ": is " + format + "-compressed; unpack it, or give plain text, .gz or .zst");
  }
  CHECK(TextReader::Open(dir.Write("train.en", "BZh9 is no text of bzip2\n")).ok());
  CHECK(TextReader::Open(dir.Write("train.en", "BZh")).ok());
}

TEST_CASE("a short line of somebody who has not finished is there at once") {
  const TemporaryFolder dir;
  const std::string path = dir.File("pipe");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const int writer = open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(write(writer, "a\n", 2) == 2);
  auto reader = TextReader::Open(path);
  REQUIRE(reader.ok());
  TextLine line;
  REQUIRE(reader->Next(line).ok());
  CHECK(line.text == "a");
  close(writer);
}

}  // namespace
}  // namespace dtrain
