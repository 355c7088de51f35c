// printable_test.cc - texts from outside reach a message without what a terminal would obey.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/printable.h"

#include <limits>
#include <string>
#include <vector>

#include "dtrain/base/log.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("control characters, direction marks and broken UTF-8 are written out") {
  CHECK(Printable("text\x1b[31mX\a") == "text\\x1b[31mX\\x07");
  CHECK(Printable("a\tb\nc\rd\x7f") == "a\\tb\\nc\\rd\\x7f");
  CHECK(Printable("\xC2\x9B"
                  "2J") == "\\u009b2J");
  CHECK(Printable("\xE2\x80\xAEtxt") == "\\u202etxt");
  CHECK(Printable("a\xFF\xC3") == "a\\xff\\xc3");
  CHECK(Printable("\xEF\xBB\xBFid") == "\\ufeffid");
}

TEST_CASE("text of any script is shown as it is") {
  CHECK(Printable("Größe 日本語 \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7") ==
        "Größe 日本語 \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7");
}

TEST_CASE("a long text is cut between characters") {
  std::string cut(80, 'x');
  cut += "...";
  CHECK(Printable(std::string(100, 'x')) == cut);
  CHECK(Printable("ääää", 5) == "ää...");
  CHECK(Printable("12345", 5) == "12345");
}

TEST_CASE("a message keeps its lines, each of them cut") {
  CHECK(PrintableLines("a\x1b\nb") == "a\\x1b\nb");
  CHECK(PrintableLines("aaaa\nbb\n", 3) == "aaa...\nbb\n");
}

TEST_CASE("a list of names ends with the number of those left out") {
  CHECK(PrintableList({"a", "b\n"}) == "a, b\\n");
  CHECK(PrintableList(std::vector<std::string>(25, "n"), 2) == "n, n and 23 more");
}

TEST_CASE("numbers stay short, and NaN has no sign") {
  CHECK(FormatNumber(3.14159, 2) == "3.14");
  CHECK(FormatNumber(999999.5, 4) == "999999.5000");
  CHECK(FormatNumber(1.7278713280120580e57, 4) == "1.728e+57");
  CHECK(FormatNumber(-2e9, 2) == "-2e+09");
  CHECK(FormatNumber(-std::numeric_limits<double>::quiet_NaN(), 4) == "nan");
  CHECK(FormatNumber(std::numeric_limits<double>::infinity(), 4) == "inf");
}

TEST_CASE("what is logged is printable") {
  std::string logged;
  const LogSink before = SetLogSink([&](LogLevel, std::string_view message) { logged = message; });
  LogWarning("tensor 'a\x1b[2J'\nnext line");
  SetLogSink(before);
  CHECK(logged == "tensor 'a\\x1b[2J'\nnext line");
}

}  // namespace
}  // namespace dtrain
