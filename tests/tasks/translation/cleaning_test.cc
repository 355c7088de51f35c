// cleaning_test.cc - each rule drops what it is for and leaves good pairs alone.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/cleaning.h"

#include <string>

#include "dtrain/data/internal/hash.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

DropReason Check(std::string_view source, std::string_view target, CleaningOptions options = {}) {
  return PairCleaner(options).CheckPair(source, target);
}

// All rules off.
CleaningOptions Off() {
  return {.drop_control_characters = false,
          .max_words = 0,
          .max_pieces = 0,
          .max_length_ratio = 0,
          .max_word_bytes = 0,
          .drop_duplicates = false,
          .drop_evaluation_overlap = false};
}

TEST_CASE("a side without a visible character is empty") {
  const PairCleaner cleaner{CleaningOptions{}};
  for (const char* const blank : {"", " \t", "\xC2\xA0", "\xE3\x80\x80\xE2\x80\x8B"}) {
    CHECK(cleaner.CheckPair(blank, "ein Haus") == DropReason::kEmptySide);
    CHECK(cleaner.CheckPair("a house", blank) == DropReason::kEmptySide);
  }
}

TEST_CASE("the default rules keep good pairs") {
  CHECK(Check("Hello world.", "Hallo Welt.") == DropReason::kKept);
  CHECK(Check("OK", "OK") == DropReason::kKept);
  CHECK(Check("10:30", "10.30 Uhr") == DropReason::kKept);
  CHECK(Check("Yes", "Das ist vollkommen richtig, mein Herr.") == DropReason::kKept);
  CHECK(Check("I have 2 cats and 1 dog.", "Ich habe zwei Katzen und einen Hund.") ==
        DropReason::kKept);
  CHECK(Check("a\tb", "c d") == DropReason::kKept);
  CHECK(Check("caf\xC3\xA9\xC2\xA0!", "\xE5\x92\x96\xE5\x95\xA1\xE9\xA6\x86") == DropReason::kKept);
}

TEST_CASE("control characters are dropped") {
  CHECK(Check("a\x1B[0m", "b") == DropReason::kControlCharacters);
  CHECK(Check("a", "b\x7F") == DropReason::kControlCharacters);
  CHECK(Check("a", "wrong \xC2\x85 encoding") == DropReason::kControlCharacters);
  CHECK(Check("a\x1B[0m", "b", Off()) == DropReason::kKept);
}

TEST_CASE("a side without text is dropped whatever the options") {
  CHECK(Check("", "b") == DropReason::kEmptySide);
  CHECK(Check("a", " \t ", Off()) == DropReason::kEmptySide);
}

TEST_CASE("limits of words, bytes and the longest word hold on both sides") {
  std::string words;
  for (int i = 0; i < 250; ++i) words += "word ";
  CHECK(Check(words, words) == DropReason::kKept);
  CHECK(Check(words, words + "more") == DropReason::kTooManyWords);
  CHECK(Check(words + "more", words, Off()) == DropReason::kKept);
  CleaningOptions options = Off();
  options.max_bytes = 5;
  CHECK(Check(" 12345 ", "1", options) == DropReason::kKept);
  CHECK(Check("123456", "1", options) == DropReason::kTooManyBytes);
  const std::string word(1001, 'x');
  CHECK(Check(word, word) == DropReason::kLongWord);
  CHECK(Check(word, word, Off()) == DropReason::kKept);
}

TEST_CASE("very different lengths are dropped beyond ratio and slack") {
  const CleaningOptions options = {.max_length_ratio = 2, .length_ratio_slack = 3};
  CHECK(Check("1234", "12345678901", options) == DropReason::kKept);
  CHECK(Check("1234", "123456789012", options) == DropReason::kLengthRatio);
  CHECK(Check("123456789012", "1234", options) == DropReason::kLengthRatio);
  CHECK(Check("a", std::string(500, 'b'), Off()) == DropReason::kKept);
}

TEST_CASE("letters, copies and numbers are looked at on request") {
  CleaningOptions options = Off();
  options.min_letter_ratio = 0.5;
  CHECK(Check("\xC3\xA4\xC3\xB6 1", "\xD0\xB4\xD0\xB0", options) == DropReason::kKept);
  CHECK(Check("ab", "1234 5 b", options) == DropReason::kFewLetters);
  options = Off();
  options.drop_copies = true;
  CHECK(Check("same ", "same", options) == DropReason::kCopy);
  CHECK(Check("same", "Same", options) == DropReason::kKept);
  options = Off();
  options.drop_number_mismatch = true;
  CHECK(Check("1,000.5 in 2020", "2020: 1.000,5", options) == DropReason::kKept);
  CHECK(Check("page 12", "Seite 13", options) == DropReason::kNumberMismatch);
}

TEST_CASE("repeated pairs and lines of the evaluation sets are dropped") {
  PairCleaner cleaner({});
  cleaner.AddEvaluationPair(HashPair("test", "Probe"));
  CHECK(cleaner.CheckSeen(HashPair("one", "eins")) == DropReason::kKept);
  CHECK(cleaner.CheckSeen(HashPair("one", "ein")) == DropReason::kKept);
  CHECK(cleaner.CheckSeen(HashPair("eins", "one")) == DropReason::kKept);
  CHECK(cleaner.CheckSeen(HashPair(" one", "eins ")) == DropReason::kDuplicatePair);
  CHECK(cleaner.CheckSeen(HashPair("two words", "zwei Worte")) == DropReason::kKept);
  CHECK(cleaner.CheckSeen(HashPair("two  words", "zwei\tWorte")) == DropReason::kDuplicatePair);
  CHECK(cleaner.CheckSeen(HashPair("twowords", "zweiWorte")) == DropReason::kKept);
  CHECK(cleaner.CheckSeen(HashPair("test", "Versuch")) == DropReason::kEvaluationOverlap);
  CHECK(cleaner.CheckSeen(HashPair("trial", "Probe")) == DropReason::kEvaluationOverlap);
  CHECK(cleaner.CheckSeen(HashPair("Probe", "test")) == DropReason::kKept);

  PairCleaner off(Off());
  off.AddEvaluationPair(HashPair("test", "Probe"));
  for (int i = 0; i < 2; ++i) CHECK(off.CheckSeen(HashPair("test", "Probe")) == DropReason::kKept);
}

TEST_CASE("a cleaning report counts and keeps three examples") {
  CleaningReport report;
  for (int line = 1; line <= 5; ++line) report.Add(DropReason::kCopy, "a.en", line);
  report.Add(DropReason::kKept, "a.en", 6);
  CHECK(report.entry(DropReason::kCopy).pairs == 5);
  CHECK(report.entry(DropReason::kCopy).examples ==
        std::vector<std::string>{"a.en:1", "a.en:2", "a.en:3"});
  CHECK(report.entry(DropReason::kKept).examples.empty());
  CHECK_THAT(report.Describe(), Catch::Contains("5 copy") && Catch::Contains("a.en:3"));
  CHECK(report.pairs_read() == 6);
  CHECK(report.pairs_kept() == 1);
  CHECK(DropReasonName(DropReason::kTooManyPieces) == "too_many_pieces");
}

TEST_CASE("a hash set finds all that was put in and nothing else") {
  internal::HashSet set;
  for (uint64_t i = 0; i < 20'000; ++i) REQUIRE(set.Insert(internal::MixHash(i, 7)));
  for (uint64_t i = 0; i < 20'000; ++i) REQUIRE_FALSE(set.Insert(internal::MixHash(i, 7)));
  for (uint64_t i = 20'000; i < 40'000; ++i) REQUIRE_FALSE(set.Contains(internal::MixHash(i, 7)));
}

}  // namespace
}  // namespace dtrain
