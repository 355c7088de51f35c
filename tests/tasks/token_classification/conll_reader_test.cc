// conll_reader_test.cc - columns, sentences, and files that are refused by name and line.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/conll_reader.h"

#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using Words = std::vector<std::string>;

StatusOr<ConllSet> Read(const std::string& text, const ConllOptions& options = {}) {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("a.conll"), text);
  return ReadConll({folder.File("a.conll")}, options);
}

TEST_CASE("sentences end at empty lines, at documents and at the end of a file") {
  const StatusOr<ConllSet> set = Read(
      "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n\n-DOCSTART- -X- O O\n"
      "Peter NNP B-NP B-PER\r\nBlackburn\tNNP\tI-NP  I-PER");
  REQUIRE(set.ok());
  REQUIRE(set->sentences.size() == 2);
  CHECK(set->sentences[0].words == Words{"EU", "rejects"});
  CHECK(set->sentences[0].tags == Words{"B-ORG", "O"});
  CHECK(set->sentences[1].words == Words{"Peter", "Blackburn"});
  CHECK(set->sentences[1].tags == Words{"B-PER", "I-PER"});
  CHECK(set->words == 4);
  CHECK(TagsOf(*set) == Words{"O", "B-ORG", "B-PER", "I-PER"});
}

TEST_CASE("columns are chosen by number, and tags need not be read") {
  const StatusOr<ConllSet> set = Read("1 B-LOC Paris x\n", {.word_column = 2, .tag_column = 1});
  REQUIRE(set.ok());
  CHECK(set->sentences[0].words == Words{"Paris"});
  CHECK(set->sentences[0].tags == Words{"B-LOC"});
  const StatusOr<ConllSet> words = Read("Paris\nis\n", {.has_tags = false});
  REQUIRE(words.ok());
  CHECK(words->sentences[0].words == Words{"Paris", "is"});
  CHECK(words->sentences[0].tags.empty());
}

TEST_CASE("the checksum sees words, tags and where sentences end") {
  const auto crc = [](const std::string& text) { return Read(text)->crc; };
  const uint32_t one = crc("a O\nb O\n");
  CHECK(crc("a O\nb O\n\n") == one);
  CHECK(crc("a O\nc O\n") != one);
  CHECK(crc("a O\nb B-X\n") != one);
  CHECK(crc("a O\n\nb O\n") != one);
}

TEST_CASE("lines that are no words with tags are refused by file and line") {
  const auto message = [](const std::string& text, const ConllOptions& options = {}) {
    const Status status = Read(text, options).status();
    CHECK(status.code() == ExitCode::kData);
    return std::string(status.message());
  };
  CHECK_THAT(message("a O\nb\n"),
             Catch::Contains("a.conll:2: ") && Catch::Contains("a word without a tag"));
  CHECK_THAT(message("a O\nb X-PER\n"),
             Catch::Contains("a.conll:2: ") && Catch::Contains("the tag \"X-PER\" is not O"));
  CHECK_THAT(message("a B-\n"), Catch::Contains("the tag \"B-\""));
  CHECK_THAT(message("a O\n", {.tag_column = 3}),
             Catch::Contains("the line has 2 columns, data.tag_column is 3"));
  CHECK_THAT(message("a O\n", {.word_column = 4}), Catch::Contains("data.word_column is 4"));
  CHECK_THAT(message("\n\n"), Catch::Contains("holds no word"));
  CHECK(ReadConll({"/absent.conll"}, {}).status().code() == ExitCode::kData);
}

}  // namespace
}  // namespace dtrain
