// text_set_test.cc - what counts as a text, and files that are refused.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/text_set.h"

#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using Texts = std::vector<std::string>;

TEST_CASE("a file is one text with all its lines, or a text for each line that is not blank") {
  const TemporaryFolder folder;
  const std::string a = folder.Write("a.txt", "One.\n\n  two\r\nthree");
  const std::string b = folder.Write("b.txt", "\xEF\xBB\xBF\xC3\xA4\n \n");
  const auto files = ReadTexts({a, b}, TextUnit::kFile);
  REQUIRE(files.ok());
  CHECK(files->texts == Texts{"One.\n\n  two\nthree\n", "\xC3\xA4\n \n"});
  CHECK(files->bytes == 23);
  const auto lines = ReadTexts({a, b}, TextUnit::kLine);
  REQUIRE(lines.ok());
  CHECK(lines->texts == Texts{"One.", "  two", "three", "\xC3\xA4"});
  CHECK(lines->bytes == 16);
  CHECK(lines->crc != files->crc);
}

TEST_CASE("texts that are divided otherwise have another checksum") {
  const TemporaryFolder folder;
  const auto crc = [&](const std::string& content) {
    return ReadTexts({folder.Write("x.txt", content)}, TextUnit::kLine)->crc;
  };
  CHECK(crc("ab\nc\n") != crc("a\nbc\n"));
  CHECK(crc("ab\nc\n") == crc("ab\n\nc"));
}

TEST_CASE("files that cannot be texts are refused by name and line") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& path) {
    const auto texts = ReadTexts({path}, TextUnit::kFile);
    CHECK(texts.status().code() == ExitCode::kData);
    return std::string(texts.status().message());
  };
  CHECK_THAT(message(folder.File("none.txt")), Catch::Contains("none.txt"));
  CHECK_THAT(message(folder.Write("latin.txt", "good\nna\xEFve\n")),
             Catch::Contains("latin.txt:2: ") && Catch::Contains("UTF-8"));
  CHECK_THAT(message(folder.Write("nul.txt", std::string("a\0b\n", 4))),
             Catch::Contains("nul.txt:1: "));
  CHECK_THAT(message(folder.Write("empty.txt", "")), Catch::Contains("empty.txt: holds no text"));
  CHECK_THAT(message(folder.Write("blank.txt", "\n \n\t\n")),
             Catch::Contains("blank.txt: holds no text"));
}

}  // namespace
}  // namespace dtrain
