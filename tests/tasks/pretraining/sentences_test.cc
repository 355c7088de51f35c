// sentences_test.cc - where paragraphs are cut, and that nothing but spaces is lost.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/sentences.h"

#include <string>

#include "testing/catch.h"

namespace dtrain {
namespace {

using Sentences = std::vector<std::string_view>;

Sentences Split(std::string_view line) {
  Sentences sentences;
  SplitSentences(line, sentences);
  return sentences;
}

TEST_CASE("a paragraph is cut behind stops that a space follows") {
  CHECK(Split("It rained. She left!  Why? Nobody knew") ==
        Sentences{"It rained.", "She left!", "Why?", "Nobody knew"});
  CHECK(Split("Pi is 3.14 or so. \t2 is more.") == Sentences{"Pi is 3.14 or so.", "2 is more."});
  CHECK(Split("What?! Really... Yes.") == Sentences{"What?!", "Really...", "Yes."});
}

TEST_CASE("closing quotes and brackets belong to the sentence before them") {
  CHECK(Split("\"Go.\" He went. (He did.) It was late.") ==
        Sentences{"\"Go.\"", "He went.", "(He did.)", "It was late."});
  CHECK(Split("\xE2\x80\x9CGo.\xE2\x80\x9D He went.") ==
        Sentences{"\xE2\x80\x9CGo.\xE2\x80\x9D", "He went."});
}

TEST_CASE("a small letter goes on with the sentence") {
  CHECK(Split("Pets, e.g. cats, etc. are not. \"No!\" she cried.") ==
        Sentences{"Pets, e.g. cats, etc. are not.", "\"No!\" she cried."});
}

TEST_CASE("spaces around sentences go, and an empty line has none") {
  CHECK(Split("").empty());
  CHECK(Split(" \t\r ").empty());
  CHECK(Split("  a b  ") == Sentences{"a b"});
  CHECK(Split(".") == Sentences{"."});
  CHECK(Split(" A.  ") == Sentences{"A."});
}

TEST_CASE("full-width ends need no space, those of Arabic and Hindi do") {
  // Two ideographs and U+3002, U+FF01, U+FF1F with a closing U+300D.
  const std::string stop = "\xE4\xB8\xAD\xE6\x96\x87\xE3\x80\x82";
  const std::string call = "\xE4\xB8\xAD\xEF\xBC\x81";
  const std::string ask = "\xE6\x96\x87\xEF\xBC\x9F\xE3\x80\x8D";
  CHECK(Split(stop + call + ask + "a" + stop) == Sentences{stop, call, ask, "a" + stop});
  CHECK(Split("\xE3\x80\x80" + stop + "\xE3\x80\x80" + call) == Sentences{stop, call});
  for (const std::string mark : {"\xD8\x9F", "\xE0\xA5\xA4"}) {
    CHECK(Split("A" + mark + " B" + mark + "C") == Sentences{"A" + mark, "B" + mark + "C"});
  }
}

TEST_CASE("a line of spaces of any kind is blank") {
  const std::string spaces = " \t\r\v\f\xC2\xA0\xE3\x80\x80";
  CHECK(HasOnlySpaces(""));
  CHECK(HasOnlySpaces(spaces));
  CHECK(Split(spaces).empty());
  CHECK_FALSE(HasOnlySpaces(spaces + "a"));
  // Starts as U+00A0 does.
  CHECK_FALSE(HasOnlySpaces("\xC2\xA1"));
  CHECK(Split("A." + spaces + "B" + spaces) == Sentences{"A.", "B"});
}

TEST_CASE("all characters but spaces come back in their order") {
  const std::string line = "One. Two!? 'Three.' four. Five ... Six. \xC3\xA9t\xC3\xA9. Oui.";
  const auto without_spaces = [](std::string_view text) {
    std::string kept;
    for (const char c : text) kept += c == ' ' ? "" : std::string(1, c);
    return kept;
  };
  std::string joined;
  for (const std::string_view sentence : Split(line)) joined += sentence;
  CHECK(without_spaces(joined) == without_spaces(line));
}

}  // namespace
}  // namespace dtrain
