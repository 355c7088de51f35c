// wordpiece_golden_test.cc - Google's and Hugging Face's own answers, and bert-base's ids.
// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/tokenizers/wordpiece.h"
#include "testing/catch.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

using Pieces = std::vector<std::string>;
using Ids = std::vector<int32_t>;

const nlohmann::json& Golden() {
  static const nlohmann::json golden = [] {
    std::ifstream file(testing::GoldenPath("wordpiece.json"));
    REQUIRE(file.good());
    return nlohmann::json::parse(file);
  }();
  return golden;
}

WordPieceTokenizer TokenizerOf(const nlohmann::json& setting) {
  Pieces pieces;
  for (const nlohmann::json& entry : setting["vocabulary"]) pieces.push_back(entry[0]);
  return WordPieceTokenizer::FromVocabulary(
             pieces, {.behavior = setting["behavior"] == "hf" ? WordPieceBehavior::kHuggingFace
                                                              : WordPieceBehavior::kGoogle,
                      .lower_case = setting["lower_case"]})
      .value();
}

TEST_CASE("difficult texts become the pieces the reference programs give") {
  for (const nlohmann::json& setting : Golden()["settings"]) {
    const WordPieceTokenizer tokenizer = TokenizerOf(setting);
    REQUIRE(setting["cases"].size() > 50);
    for (const nlohmann::json& example : setting["cases"]) {
      INFO(setting["behavior"] << " " << setting["lower_case"] << " " << example[0]);
      CHECK(tokenizer.EncodePieces(example[0].get<std::string>()) == example[1].get<Pieces>());
    }
  }
}

TEST_CASE("random mixtures of scripts become the words the reference programs give") {
  for (const nlohmann::json& setting : Golden()["settings"]) {
    const WordPieceTokenizer tokenizer = TokenizerOf(setting);
    for (const nlohmann::json& example : setting["words"]) {
      INFO(setting["behavior"] << " " << setting["lower_case"] << " " << example[0]);
      CHECK(tokenizer.Words(example[0].get<std::string>()) == example[1].get<Pieces>());
    }
  }
}

std::string Utf8(char32_t c) {
  const auto byte = [](char32_t value) { return static_cast<char>(value); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))};
  if (c < 0x10000) {
    return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
  }
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)),
          byte(0x80 | (c & 0x3F))};
}

// CRC-32 of all words of probe(c) of make_wordpiece_goldens.py.
unsigned long ProbeSum(const WordPieceTokenizer& tokenizer, char32_t first, char32_t last,
                       unsigned long sum) {
  for (char32_t code_point = first; code_point < last; ++code_point) {
    const std::string c = Utf8(code_point);
    const std::string probe = "A" + c + "B A\u03a3" + c + " A\u03a3" + c + "A " + c +
                              "\u03a3 \u302e" + c + "\U0001d165\u08d4";
    std::string words;
    for (const std::string& word : tokenizer.Words(probe)) words += word + "\n";
    sum = crc32(sum, reinterpret_cast<const Bytef*>(words.data()), static_cast<uInt>(words.size()));
  }
  return sum;
}

TEST_CASE("every character has the effect it has in the reference programs") {
  for (const nlohmann::json& setting : Golden()["settings"]) {
    const WordPieceTokenizer tokenizer = TokenizerOf(setting);
    unsigned long sum = ProbeSum(tokenizer, 0, 0xD800, 0);
    sum = ProbeSum(tokenizer, 0xE000, 0x32000, sum);
    sum = ProbeSum(tokenizer, 0xE0000, 0xE0200, sum);
    INFO(setting["behavior"] << " " << setting["lower_case"]);
    CHECK(sum == setting["probe_sum"].get<unsigned long>());
  }
}

// bert-base-uncased, from the folder of data beside the repository; none, with a word, elsewhere.
std::optional<WordPieceTokenizer> BertBase(const WordPieceOptions& options) {
  const auto path = testing::SharedPath("data/vocab/bert-base-uncased-vocab.txt");
  if (!path) return std::nullopt;
  return WordPieceTokenizer::Load(path->string(), options).value();
}

TEST_CASE("bert-base's own vocabulary gives the published ids") {
  for (const WordPieceBehavior behavior :
       {WordPieceBehavior::kGoogle, WordPieceBehavior::kHuggingFace}) {
    const std::optional<WordPieceTokenizer> tokenizer = BertBase({.behavior = behavior});
    if (!tokenizer) return;
    WordPieceEncoder encoder(*tokenizer);
    Ids ids;
    Ids types;
    encoder.EncodePair(
        "Hi, I am learning new things in w251 about deep learning the cloud and teh edge.",
        std::nullopt, {}, ids, types);
    CHECK(ids == Ids{101,  7632, 1010, 1045, 2572, 4083, 2047, 2477, 1999, 1059, 17788, 2487,
                     2055, 2784, 4083, 1996, 6112, 1998, 8915, 2232, 3341, 1012, 102});
    encoder.EncodePair("My name is John", "pair", {}, ids, types);
    CHECK(ids == Ids{101, 2026, 2171, 2003, 2198, 102, 3940, 102});
    CHECK(types == Ids{0, 0, 0, 0, 0, 0, 1, 1});
  }
}

}  // namespace
}  // namespace dtrain
