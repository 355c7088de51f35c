// normal_forms_test.cc - every character in each normal form of Unicode, as `tokenizers` has it.
// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <string>

#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/internal/composition.h"
#include "dtrain/tokenizers/internal/text_rules.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

using Json = nlohmann::json;

std::string Normalized(const std::string& form, std::string text) {
  const auto rules = internal::TextRules::Parse({{"type", form}}, "file");
  REQUIRE(rules.ok());
  std::string buffer;
  rules->Apply(text, buffer);
  return text;
}

// Each character of a block alone and in company, as make_normal_forms_goldens.py writes it.
std::string TextOf(uint32_t begin, uint32_t size) {
  std::string text;
  for (uint32_t c = begin; c < begin + size; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string character;
    AppendUtf8(c, character);
    text += character + "\n";
    text += "a" + character + "\xCC\x81\xCC\xA3\n";
    text += "\xE1\x84\x80" + character + "\xE1\x86\xA8\n";
    text += "\xCD\x85" + character + character + "\n";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

TEST_CASE("every character has the normal forms that tokenizers gives it, alone and in company") {
  const Json golden = Json::parse(ReadTestFile(testing::GoldenPath("normal_forms.json")));
  REQUIRE(golden.at("blocks").size() == 53);
  for (const Json& block : golden["blocks"]) {
    const std::string plain = TextOf(block.at("begin"), golden.at("size"));
    REQUIRE(block.at("sums").size() == 4);
    for (const auto& [form, sum] : block["sums"].items()) {
      INFO(form << " of " << block["begin"] << " and on");
      const std::string text = Normalized(form, plain);
      const uLong ours =
          crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()));
      CHECK(ours == sum.get<uLong>());
    }
  }
}

TEST_CASE("variants of characters become the usual ones, and marks their letters'") {
  CHECK(Normalized("NFKC", "\xEF\xAC\x81\xE2\x85\xA7") == "fiVIII");  // U+FB01 U+2167
  CHECK(Normalized("NFKC", "e\xCC\x81") == "\xC3\xA9");               // é
  CHECK(Normalized("NFKD", "\xC3\xA9\xEF\xBC\xA1") ==
        "e\xCC\x81"
        "A");  // é and a wide A
  CHECK(Normalized("NFD", "\xC3\xA9\xEF\xBC\xA1") == "e\xCC\x81\xEF\xBC\xA1");
  CHECK(internal::WithoutVariants("\xC3\xA9\xEF\xBC\xA1") ==
        "\xC3\xA9"
        "A");
  CHECK(Normalized("NFKC", "").empty());
  CHECK(Normalized("NFKC", std::string("a\0b", 3)) == std::string("a\0b", 3));
}

}  // namespace
}  // namespace dtrain
