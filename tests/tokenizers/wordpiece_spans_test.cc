// wordpiece_spans_test.cc - tokens know their places in the text, as Hugging Face's tokenizers do.
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/tokenizers/wordpiece.h"
#include "testing/catch.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

using Pieces = std::vector<std::string>;
using Ids = std::vector<int32_t>;
constexpr WordPieceBehavior kHf = WordPieceBehavior::kHuggingFace;

WordPieceTokenizer TokenizerOf(const Pieces& pieces, const WordPieceOptions& options = {}) {
  Pieces all = {"[UNK]", "[CLS]", "[SEP]"};
  all.insert(all.end(), pieces.begin(), pieces.end());
  return WordPieceTokenizer::FromVocabulary(all, options).value();
}

struct Token {
  std::string piece;
  std::string text;  // where it stands
  friend bool operator==(const Token&, const Token&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Token& token) {
    return out << token.piece << "=" << token.text;
  }
};

std::vector<Token> TokensOf(const WordPieceTokenizer& tokenizer, const std::string& text) {
  Ids ids;
  std::vector<TokenSpan> spans;
  tokenizer.EncodeWithSpans(text, ids, spans);
  REQUIRE(ids.size() == spans.size());
  std::vector<Token> tokens;
  for (size_t i = 0; i < ids.size(); ++i) {
    tokens.push_back({std::string(tokenizer.Piece(ids[i])),
                      text.substr(static_cast<size_t>(spans[i].begin),
                                  static_cast<size_t>(spans[i].end - spans[i].begin))});
  }
  return tokens;
}

TEST_CASE("pieces have their own characters, unknown words all of theirs") {
  const WordPieceTokenizer tokenizer = TokenizerOf({"un", "##aff", "##able", "cafe", "##s", "!"});
  CHECK(TokensOf(tokenizer, "  UNaffable xyz!") ==
        std::vector<Token>{
            {"un", "UN"}, {"##aff", "aff"}, {"##able", "able"}, {"[UNK]", "xyz"}, {"!", "!"}});
  CHECK(TokensOf(tokenizer, "Caf\u00e9s Cafe\u0301s") ==
        std::vector<Token>{{"cafe", "Caf\u00e9"}, {"##s", "s"}, {"cafe", "Cafe"}, {"##s", "s"}});
  CHECK(TokensOf(tokenizer,
                 "\xFFun\x01"
                 "aff\xFF"
                 "able\x02") ==
        std::vector<Token>{{"un", "un"}, {"##aff", "aff"}, {"##able", "able"}});
  CHECK(TokensOf(tokenizer,
                 "c\x01"
                 "afe") == std::vector<Token>{{"cafe",
                                               "c\x01"
                                               "afe"}});
}

TEST_CASE("the pieces of one syllable share its bytes") {
  const WordPieceTokenizer tokenizer = TokenizerOf({"\u1100", "##\u1161", "##\u11a8"});
  CHECK(TokensOf(tokenizer, "x \uac01") ==
        std::vector<Token>{
            {"[UNK]", "x"}, {"\u1100", "\uac01"}, {"##\u1161", "\uac01"}, {"##\u11a8", "\uac01"}});
}

TEST_CASE("special tokens are text where spans are asked for") {
  const WordPieceTokenizer tokenizer = TokenizerOf({"[", "]", "sep"}, {.behavior = kHf});
  CHECK(tokenizer.EncodePieces("[SEP]") == Pieces{"[SEP]"});
  CHECK(TokensOf(tokenizer, "[SEP]") == std::vector<Token>{{"[", "["}, {"sep", "SEP"}, {"]", "]"}});
}

TEST_CASE("spans are added behind those that are there") {
  const WordPieceTokenizer tokenizer = TokenizerOf({"a"});
  Ids ids = {7};
  std::vector<TokenSpan> spans = {{1, 2}};
  tokenizer.EncodeWithSpans("a a", ids, spans);
  CHECK(ids == Ids{7, 3, 3});
  CHECK(spans == std::vector<TokenSpan>{{1, 2}, {0, 1}, {2, 3}});
}

TEST_CASE("texts of random characters have the ids of Encode, and places that go forward") {
  Pieces pieces = {"!", "\u535a", "##\u0301"};
  for (char c = 'a'; c <= 'h'; ++c) {
    pieces.push_back(std::string(1, c));
    pieces.push_back(std::string("##") + c);
    pieces.push_back(std::string("##") + c + "b");
  }
  const std::string characters[] = {"a",          "B",      "c",      "b",      " ",
                                    "!",          "\u00e9", "\u0301", "\u0316", "\u302e",
                                    "\U0001d165", "\u535a", "\uac01", "\xFF",   "\x01"};
  RandomStream random({.seed = 3});
  for (const WordPieceBehavior behavior : {WordPieceBehavior::kGoogle, kHf}) {
    for (const bool lower_case : {false, true}) {
      const WordPieceTokenizer tokenizer =
          TokenizerOf(pieces, {.behavior = behavior, .lower_case = lower_case});
      for (int n = 0; n < 500; ++n) {
        std::string text;
        for (int i = 0; i < 12; ++i) text += characters[random.NextBelow(15)];
        Ids ids;
        std::vector<TokenSpan> spans;
        tokenizer.EncodeWithSpans(text, ids, spans);
        REQUIRE(ids == tokenizer.Encode(text));
        TokenSpan before;
        for (const TokenSpan& span : spans) {
          REQUIRE(span.begin >= before.begin);
          REQUIRE(span.end >= before.end);
          REQUIRE(span.begin < span.end);
          before = span;
        }
        if (!spans.empty()) CHECK(spans.back().end <= static_cast<int32_t>(text.size()));
      }
    }
  }
}

// The bytes at which the code points of `text` begin, and its size.
std::vector<int32_t> CodePointBytes(const std::string& text) {
  std::vector<int32_t> bytes;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (static_cast<uint8_t>(text[i]) & 0xC0u) != 0x80u) {
      bytes.push_back(static_cast<int32_t>(i));
    }
  }
  return bytes;
}

TEST_CASE("tokens of difficult texts stand where tokenizers finds them") {
  std::ifstream file(testing::GoldenPath("squad.json"));
  REQUIRE(file.good());
  const nlohmann::json golden = nlohmann::json::parse(file);
  for (const nlohmann::json& setting : golden["spans"]) {
    const WordPieceTokenizer tokenizer =
        WordPieceTokenizer::FromVocabulary(setting["vocabulary"].get<Pieces>(),
                                           {.behavior = kHf, .lower_case = setting["lower_case"]})
            .value();
    REQUIRE(setting["cases"].size() > 50);
    for (const nlohmann::json& example : setting["cases"]) {
      const std::string text = example["text"];
      const std::vector<int32_t> bytes = CodePointBytes(text);
      INFO(setting["lower_case"] << " " << example["text"]);
      Ids ids;
      std::vector<TokenSpan> spans;
      tokenizer.EncodeWithSpans(text, ids, spans);
      Pieces pieces;
      for (const int32_t id : ids) pieces.emplace_back(tokenizer.Piece(id));
      CHECK(pieces == example["pieces"].get<Pieces>());
      std::vector<TokenSpan> expected;
      for (const auto& [begin, end] :
           example["spans"].get<std::vector<std::pair<size_t, size_t>>>()) {
        expected.push_back({bytes[begin], bytes[end]});
      }
      CHECK(spans == expected);
    }
  }
}

}  // namespace
}  // namespace dtrain
