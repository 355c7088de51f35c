// text_tokenizer_test.cc - one interface for all tokenizers: kinds, rows, places, special tokens.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/text_tokenizer.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/byte_bpe.h"
#include "dtrain/tokenizers/unigram.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/letter_tokenizer.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

// The byte-level BPE models of the golden file.
const Json& Settings() {
  static const Json golden = [] {
    std::ifstream file(testing::GoldenPath("byte_bpe.json"));
    REQUIRE(file.good());
    return Json::parse(file);
  }();
  return golden["settings"];
}

Json FileOf(const std::string& name) {
  for (const Json& setting : Settings()) {
    if (setting["name"] == name) return Json::parse(setting["file"].get<std::string>());
  }
  FAIL(name);
  return {};
}

StatusOr<TextTokenizer> Load(const Json& file, bool match_special_tokens = true) {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("tokenizer.json"), file.dump());
  return TextTokenizer::Load(folder.File("tokenizer.json"),
                             {.match_special_tokens = match_special_tokens});
}

TEST_CASE("the kind of a tokenizer is that of its file") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("vocab.txt"), "[UNK]\n[CLS]\n[SEP]\na\n");
  const auto pieces = TextTokenizer::Load(folder.File("vocab.txt"));
  REQUIRE(pieces.ok());
  CHECK(pieces->word_piece() != nullptr);
  const auto bytes = Load(FileOf("roberta"));
  INFO(bytes.status().message());
  REQUIRE(bytes.ok());
  CHECK(bytes->word_piece() == nullptr);
  CHECK(bytes->Piece(bytes->cls_id()) == "<s>");
  CHECK(bytes->Piece(bytes->sep_id()) == "</s>");
  CHECK(bytes->Piece(bytes->mask_id()) == "<mask>");
  CHECK(bytes->Piece(bytes->pad_id()) == "<pad>");
}

TEST_CASE("rows have the special tokens and types of their tokenizer") {
  const TextTokenizer letters = testing::LetterTokenizer();
  CHECK(letters.row().single_size() == 2);
  CHECK(letters.row().pair_size() == 3);
  CHECK(letters.row().second_has_type1);
  const TextTokenizer roberta = Load(FileOf("roberta")).value();
  CHECK(roberta.row().between.size() == 2);
  CHECK(roberta.row().pair_size() == 4);
  CHECK_FALSE(roberta.row().second_has_type1);
  for (const int threads : {1, 3}) {
    for (const TextTokenizer& tokenizer : {letters, roberta}) {
      const std::vector<std::string_view> first = {"ab c", "", "d"};
      const std::vector<std::string_view> second = {"e", "fg", "hijk lm"};
      TextBatchEncoder encoder(tokenizer, threads);
      const EncodedTexts rows = encoder.Encode(first, second, {});
      REQUIRE(rows.num_rows() == 3);
      for (size_t i = 0; i < 3; ++i) {
        Ids expected = tokenizer.row().before;
        const auto add = [&](const Ids& ids) {
          expected.insert(expected.end(), ids.begin(), ids.end());
        };
        std::vector<TokenSpan> unused;
        tokenizer.EncodeWithSpans(first[i], expected, unused);
        add(tokenizer.row().between);
        const auto type0 = static_cast<int64_t>(expected.size());
        tokenizer.EncodeWithSpans(second[i], expected, unused);
        add(tokenizer.row().after);
        CHECK(Ids(rows.row(i).begin(), rows.row(i).end()) == expected);
        CHECK(rows.type0_sizes[i] ==
              (tokenizer.row().second_has_type1 ? type0 : static_cast<int64_t>(expected.size())));
      }
    }
  }
}

std::string_view PlaceOf(std::string_view text, TokenSpan span) {
  return text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
}

// The places of the tokens of `text`, whole characters that never go back. `plain` matches no
// special tokens.
template <typename Tokenizer, typename Encoder>
std::vector<TokenSpan> CheckedSpans(const Tokenizer& tokenizer, Encoder& plain,
                                    const std::string& text, Ids& ids) {
  Ids expected;
  std::vector<TokenSpan> spans;
  tokenizer.EncodeWithSpans(text, ids, spans);
  plain.Encode(text, expected);
  CHECK(ids == expected);
  REQUIRE(spans.size() == ids.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    const auto [begin, end] = spans[i];
    INFO("token " << i << " at " << begin << " to " << end);
    REQUIRE((0 <= begin && begin <= end && end <= static_cast<int32_t>(text.size())));
    CHECK(IsValidUtf8(PlaceOf(text, spans[i])));
    if (i > 0) CHECK((spans[i - 1].begin <= begin && spans[i - 1].end <= end));
  }
  return spans;
}

TEST_CASE("places of byte-level tokens are the characters that they are made of") {
  for (const Json& setting : Settings()) {
    Json file = Json::parse(setting["file"].get<std::string>());
    const auto tokenizer = ByteBpeTokenizer::FromJson(file.dump(), "file");
    INFO(setting["name"] << " " << tokenizer.status().message());
    REQUIRE(tokenizer.ok());
    ByteBpeEncoder plain(*tokenizer, 1 << 20, /*match_special_tokens=*/false);
    for (const Json& example : setting["cases"]) {
      const auto text = example[0].get<std::string>();
      if (!IsValidUtf8(text)) continue;
      INFO(example[0]);
      Ids ids;
      const std::vector<TokenSpan> spans = CheckedSpans(*tokenizer, plain, text, ids);
      for (size_t i = 0; i < spans.size(); ++i) {
        // A piece of whole characters is what stands there, but for white space in front.
        const std::string piece = tokenizer->Decode(std::span(ids).subspan(i, 1));
        if (file["normalizer"].is_null() && IsValidUtf8(piece))
          CHECK(piece.ends_with(PlaceOf(text, spans[i])));
      }
    }
  }
}

TEST_CASE("composed characters have the place of all that they were made of") {
  Json file = FileOf("modernbert");
  const auto tokenizer = ByteBpeTokenizer::FromJson(file.dump(), "file");
  REQUIRE(tokenizer.ok());
  Ids ids;
  std::vector<TokenSpan> spans;
  const std::string text = "a care\u0301 e";  // e and an accent, bytes 5 to 8
  tokenizer->EncodeWithSpans(text, ids, spans);
  CHECK(tokenizer->Decode(ids) == "a car\u00e9 e");
  bool found = false;
  for (size_t i = 0; i < ids.size(); ++i) {
    found |= spans[i].end == 8;
    CHECK((spans[i].begin <= 5 || spans[i].begin >= 8));  // never inside of it
  }
  CHECK(found);
  CHECK(spans.back() == TokenSpan{9, 10});
}

TEST_CASE("places of Unigram's tokens are the characters that they were made of") {
  std::ifstream stream(testing::GoldenPath("unigram.json"));
  const Json golden = Json::parse(stream);
  for (const Json& setting : golden["json"]) {
    const auto tokenizer = UnigramTokenizer::FromJson(setting["file"].get<std::string>(), "file");
    INFO(setting["name"] << " " << tokenizer.status().message());
    REQUIRE(tokenizer.ok());
    UnigramEncoder plain(*tokenizer, 1 << 20, /*match_special_tokens=*/false);
    for (const Json& example : golden["texts"]) {
      const auto text = example.get<std::string>();
      if (!IsValidUtf8(text)) continue;
      INFO(example);
      Ids ids;
      CheckedSpans(*tokenizer, plain, text, ids);
    }
    // What no rule changes stands where its pieces are.
    const std::string text = "a man, plays";
    Ids ids;
    std::vector<TokenSpan> spans;
    tokenizer->EncodeWithSpans(text, ids, spans);
    std::string found;
    for (const TokenSpan& span : spans) {
      found +=
          text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
    }
    CHECK(found == "aman,plays");
  }
}

TEST_CASE("special tokens in texts are text where they shall not be matched") {
  for (const bool matches : {true, false}) {
    const TextTokenizer tokenizer = Load(FileOf("roberta"), matches).value();
    const std::vector<std::string_view> texts = {"a <mask> b"};
    const EncodedTexts rows = TextBatchEncoder(tokenizer, 1).Encode(texts);
    const bool has = std::ranges::find(rows.ids, tokenizer.mask_id()) != rows.ids.end();
    CHECK(has == matches);
  }
  CHECK(Load(FileOf("roberta"), true)->Hash() != Load(FileOf("roberta"), false)->Hash());
}

TEST_CASE("a tokenizer whose rows are no encoder's is refused") {
  Json file = FileOf("roberta");
  file["post_processor"] = nullptr;
  const auto refused = Load(file);
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(std::string(refused.status().message()),
             Catch::Contains("post_processor: a row of an encoder has special tokens"));
  file["model"]["type"] = "WordLevel";
  CHECK_FALSE(Load(file).ok());
}

}  // namespace
}  // namespace dtrain
