// bpe_test.cc - encoding, decoding, dropout and encoding of many lines.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/bpe.h"

#include <set>
#include <string>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/status.h"
#include "dtrain/tokenizers/bpe_trainer.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

using Pieces = std::vector<std::string>;

// Control pieces, then `texts` with falling scores.
BpeModel ModelOf(const Pieces& texts) {
  BpeVocabulary vocabulary;
  vocabulary.pieces = {{"<unk>", BpePieceType::kUnknown},
                       {"<s>", BpePieceType::kControl},
                       {"</s>", BpePieceType::kControl}};
  for (const std::string& text : texts) {
    vocabulary.pieces.push_back(
        {text, BpePieceType::kNormal, -static_cast<float>(vocabulary.pieces.size())});
  }
  return BpeModel::FromVocabulary(vocabulary).value();
}

// Learned from `lines`, with bytes for whatever they do not hold.
BpeModel LearnedFrom(const std::vector<std::string>& lines, int32_t vocab_size,
                     bool byte_fallback) {
  WordCounter counter(1);
  counter.Add(lines);
  return LearnBpe(counter, {.vocab_size = vocab_size, .byte_fallback = byte_fallback}).value();
}

const std::vector<std::string>& Multilingual() {
  static const std::vector<std::string> lines = {
      "The quick brown fox jumps over the lazy dog.",
      "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
      "Victor jagt zwölf Boxkämpfer quer über den großen Sylter Deich",
      "Съешь же ещё этих мягких французских булок, да выпей чаю.",
      "いろはにほへと ちりぬるを 我が世誰ぞ 常ならむ",
      "天地玄黃 宇宙洪荒",
      "นายสังฆภัณฑ์ เฮงพิทักษ์ฝั่ง",
      "नमस्ते दुनिया",
      "شكرا جزيلا",
      "e\u0301a\u0308 Z\u0351\u036b\u0343",                  // combining marks
      "👍🏽 👩‍👩‍👧‍👦 🇩🇪 a😀b",  // modifiers, joiners, flags
      "1,234.56 € (50 %) <b>&amp;</b> C++20\tTab",
  };
  return lines;
}

std::string Collapsed(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ' && (out.empty() || out.back() == ' ')) continue;
    out += c;
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

TEST_CASE("a line without a visible character has no piece") {
  const BpeModel model = LearnedFrom(Multilingual(), 600, /*byte_fallback=*/true);
  for (const char* const blank :
       {"", "  ", "\t", "\xC2\xA0", "\xE2\x96\x81", "\xC2\xA0\xE2\x96\x81\t "}) {
    CHECK(model.Encode(blank).empty());
  }
  CHECK_FALSE(model.Encode("\t.").empty());
}

TEST_CASE("the pair with the best score merges first, of equal ones the leftmost") {
  const BpeModel model = ModelOf({"bc", "ab", "aa", "▁a", "▁", "a", "b", "c"});
  CHECK(model.EncodePieces("abc") == Pieces{"▁a", "bc"});
  CHECK(model.EncodePieces("ab") == Pieces{"▁", "ab"});
  CHECK(model.EncodePieces("aaaa") == Pieces{"▁", "aa", "aa"});
  CHECK(model.EncodePieces("baaac") == Pieces{"▁", "b", "aa", "a", "c"});
}

TEST_CASE("a merge goes by the text of its result, whichever way it is put together") {
  const BpeModel model = ModelOf({"bc", "abc", "ab", "▁", "a", "b", "c"});
  CHECK(model.EncodePieces("abc") == Pieces{"▁", "abc"});
}

TEST_CASE("spaces collapse, and a U+2581 in the text begins a word as in SentencePiece") {
  const BpeModel model = ModelOf({"▁a", "▁", "a", "b"});
  CHECK(model.EncodePieces("  a   ab ") == Pieces{"▁a", "▁a", "b"});
  CHECK(model.EncodePieces("a▁▁b▁") == Pieces{"▁a", "▁", "▁", "b"});
  CHECK(model.EncodePieces("").empty());
  CHECK(model.EncodePieces("   ").empty());
  CHECK(model.Encode(" ").empty());
}

TEST_CASE("ids are numbered unk, bos, eos, pieces, and pad comes last") {
  const BpeModel model = ModelOf({"▁a", "▁", "a"});
  CHECK(model.vocab_size() == 7);
  CHECK(model.unk_id() == 0);
  CHECK(model.bos_id() == 1);
  CHECK(model.eos_id() == 2);
  CHECK(model.pad_id() == 6);
  CHECK(model.Piece(3) == "▁a");
  CHECK(model.Piece(6) == "<pad>");
  CHECK_THROWS_AS(model.Piece(7), CheckError);
  CHECK(model.Encode("a aa") == std::vector<int32_t>{3, 3, 5});
}

TEST_CASE("a run of unknown characters is one unknown piece") {
  const BpeModel model = ModelOf({"▁a", "▁", "a"});
  CHECK(model.Encode("axya xx") == std::vector<int32_t>{3, 0, 5, 4, 0});
  CHECK(model.EncodePieces("axya") == Pieces{"▁a", "xy", "a"});
  CHECK(model.EncodePieces("\xFF\xC3") == Pieces{"▁", "\uFFFD\uFFFD"});
  CHECK(model.Decode(model.Encode("axya")) == "a \u2047 a");
}

TEST_CASE("text comes back from its ids, whatever the script") {
  const BpeModel model = LearnedFrom(Multilingual(), 600, true);
  for (const std::string& line : Multilingual()) {
    CHECK(model.Decode(model.Encode(line)) == Collapsed(line));
    CHECK(model.Decode(model.Encode("  " + line + "   " + line + " ")) ==
          Collapsed(line + " " + line));
  }
}

TEST_CASE("characters outside the vocabulary come back from byte pieces") {
  const BpeModel model = LearnedFrom({"plain ASCII text"}, 300, true);
  for (const std::string& line : Multilingual()) {
    CHECK(model.Decode(model.Encode(line)) == Collapsed(line));
  }
  CHECK(model.EncodePieces("é") == Pieces{"▁", "<0xC3>", "<0xA9>"});
}

TEST_CASE("decoding passes over control ids and mends bytes that are no UTF-8") {
  const BpeModel model = LearnedFrom({"ab"}, 300, true);
  std::vector<int32_t> ids = model.Encode("a b");
  ids.insert(ids.begin(), {model.pad_id(), model.bos_id()});
  ids.push_back(model.eos_id());
  CHECK(model.Decode(ids) == "a b");
  const int32_t byte_c3 = 3 + 0xC3;
  CHECK(model.Decode(std::vector<int32_t>{byte_c3, byte_c3, 3 + 0xA9}) == "\uFFFDé");
}

TEST_CASE("dropout of zero changes nothing and of one leaves single characters") {
  const BpeModel model = LearnedFrom(Multilingual(), 400, false);
  const std::string line = "zwölf Boxkämpfer über den großen";
  CHECK(model.Encode(line, {.dropout = 0.0f, .key = {1, 2, 3}}) == model.Encode(line));
  const std::vector<int32_t> characters = model.Encode(line, {.dropout = 1.0f});
  CHECK(characters.size() == 33);
  CHECK(model.Decode(characters) == line);
}

TEST_CASE("dropout gives the same pieces for the same key and others for another") {
  const BpeModel model = LearnedFrom(Multilingual(), 400, false);
  const std::string line = "zwölf Boxkämpfer über den großen Sylter Deich";
  std::set<std::vector<int32_t>> seen;
  for (uint32_t step = 0; step < 20; ++step) {
    const BpeEncodeOptions options = {.dropout = 0.3f, .key = {.seed = 7, .step = step}};
    const std::vector<int32_t> ids = model.Encode(line, options);
    CHECK(ids == model.Encode(line, options));
    CHECK(model.Decode(ids) == line);
    seen.insert(ids);
  }
  CHECK(seen.size() > 10);
}

TEST_CASE("dropout drops merges as often as it says") {
  const BpeModel model = ModelOf({"▁a", "▁", "a"});
  size_t dropped = 0;
  for (uint32_t step = 0; step < 4000; ++step) {
    dropped += model.Encode("a", {.dropout = 0.25f, .key = {.step = step}}).size() - 1;
  }
  CHECK(dropped == Approx(1000).margin(120));  // more than four standard deviations
}

TEST_CASE("many lines give the ids of single ones, on any number of threads") {
  const BpeModel model = LearnedFrom(Multilingual(), 400, false);
  std::vector<std::string> lines;
  for (int i = 0; i < 300; ++i) {
    const size_t which = static_cast<size_t>(i) % Multilingual().size();
    lines.push_back(Multilingual()[which] + " " + std::to_string(i * 7919) + std::string(i, 'g'));
  }
  lines[17].clear();
  for (const int num_threads : {1, 2, 4}) {
    const EncodedLines encoded = EncodeLines(model, lines, num_threads);
    REQUIRE(encoded.offsets.size() == lines.size() + 1);
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::span<const int32_t> ids = encoded.line(i);
      REQUIRE(std::vector<int32_t>(ids.begin(), ids.end()) == model.Encode(lines[i]));
    }
  }
  CHECK(EncodeLines(model, {}, 3).offsets == std::vector<int64_t>{0});
}

TEST_CASE("an encoder whose cache is always full gives the same ids") {
  const BpeModel model = LearnedFrom(Multilingual(), 400, false);
  BpeEncoder small(model, 1);
  for (const std::string& line : Multilingual()) {
    std::vector<int32_t> ids;
    small.Encode(line, ids);
    CHECK(ids == model.Encode(line));
  }
}

TEST_CASE("a word of a million characters is encoded in the time of its length") {
  const BpeModel model = LearnedFrom(Multilingual(), 400, false);
  std::string line;
  while (line.size() < 1000000) line += "Boxkämpfer";
  BpeEncoder encoder(model);
  std::vector<int32_t> ids;
  encoder.Encode(line, ids);
  CHECK(model.Decode(ids) == line);
}

TEST_CASE("the hash tells models apart by pieces, order and options") {
  const BpeModel model = ModelOf({"▁a", "▁", "a"});
  CHECK(model.Hash() == ModelOf({"▁a", "▁", "a"}).Hash());
  CHECK(model.Hash() != ModelOf({"▁", "▁a", "a"}).Hash());
  CHECK(model.Hash() != ModelOf({"▁b", "▁", "b"}).Hash());
  CHECK(LearnedFrom({"ab"}, 300, true).Hash() != LearnedFrom({"ab"}, 300, false).Hash());
}

TEST_CASE("a vocabulary that cannot be says why") {
  const auto message = [](BpeVocabulary vocabulary) {
    const Status status = BpeModel::FromVocabulary(std::move(vocabulary)).status();
    CHECK(status.code() == ExitCode::kData);
    return std::string(status.message());
  };
  BpeVocabulary good = ModelOf({"▁a", "▁", "a"}).vocabulary();
  BpeVocabulary bad = good;
  bad.pieces[5].text = "▁a";
  CHECK(message(bad) == "pieces 3 and 5 are both '▁a'");
  bad = good;
  bad.pieces[4].text = "";
  CHECK(message(bad) == "piece 4 is empty");
  bad = good;
  bad.pieces[4].text = "\xC3";
  CHECK(message(bad) == "piece 4 is not UTF-8");
  bad = good;
  bad.pieces.resize(3);
  CHECK(message(bad) == "there are no pieces");
  bad = good;
  bad.unk_id = 9;
  CHECK(message(bad) == "id 9 is not the unknown piece");
  bad = good;
  bad.eos_id = -1;
  CHECK(message(bad) == "id -1 is not a control piece; <s> and </s> are both needed");
  bad = good;
  bad.byte_fallback = true;
  CHECK(message(bad) == "the byte piece <0x00> is missing");
  bad = good;
  bad.pieces[4] = {"<0xG1>", BpePieceType::kByte};
  CHECK(message(bad) == "'<0xG1>' is not a byte piece");
}

}  // namespace
}  // namespace dtrain
