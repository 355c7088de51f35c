// wordpiece_test.cc - words to pieces, rows with special tokens, and batches of rows.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/wordpiece.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/random.h"
#include "dtrain/base/status.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

using Pieces = std::vector<std::string>;
using Ids = std::vector<int32_t>;
constexpr WordPieceBehavior kHf = WordPieceBehavior::kHuggingFace;

// [PAD] [UNK] [CLS] [SEP] [MASK], then `pieces` from id 5 on.
WordPieceTokenizer TokenizerOf(const Pieces& pieces, const WordPieceOptions& options = {}) {
  Pieces all = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  all.insert(all.end(), pieces.begin(), pieces.end());
  return WordPieceTokenizer::FromVocabulary(all, options).value();
}

// A piece for every lower-case letter, at the beginning of a word and inside.
WordPieceTokenizer LetterTokenizer(const WordPieceOptions& options = {}) {
  Pieces pieces;
  for (char c = 'a'; c <= 'z'; ++c) {
    pieces.push_back(std::string(1, c));
    pieces.push_back(std::string("##") + c);
  }
  return TokenizerOf(pieces, options);
}

TEST_CASE("a word becomes the longest pieces from its left end on") {
  const WordPieceTokenizer tokenizer =
      TokenizerOf({"a", "abc", "abcdefghi", "##de", "##defgxy", "##deh", "##f", "##ghz"});
  CHECK(tokenizer.EncodePieces("abcdefghz") == Pieces{"abc", "##de", "##f", "##ghz"});
  CHECK(tokenizer.EncodePieces("abc") == Pieces{"abc"});
  CHECK(tokenizer.EncodePieces("abcdefghi") == Pieces{"abcdefghi"});
  CHECK(tokenizer.EncodePieces("abcdefgxyf") == Pieces{"abc", "##defgxy", "##f"});
}

TEST_CASE("a word that pieces do not cover to its end is unknown as a whole") {
  const WordPieceTokenizer tokenizer =
      TokenizerOf({"a", "abc", "abcdefghi", "##de", "##defgxy", "##deh", "##f", "##ghz"},
                  {.lower_case = false});
  for (const char* text : {"abcX", "Xde", "abcd", "de", "f", "abcdefgh", "#", "zz"}) {
    INFO(text);
    CHECK(tokenizer.EncodePieces(text) == Pieces{"[UNK]"});
  }
  CHECK(tokenizer.EncodePieces("abcX abc") == Pieces{"[UNK]", "abc"});
}

TEST_CASE("greedy matching does not look for another way where it is stuck") {
  const WordPieceTokenizer tokenizer = TokenizerOf({"ab", "a", "##bc"});
  CHECK(tokenizer.EncodePieces("abc") == Pieces{"[UNK]"});
}

TEST_CASE("vocabularies without beginnings, without suffixes or with an empty suffix work") {
  CHECK(TokenizerOf({"abc", "de"}).EncodePieces("abcde abc") == Pieces{"[UNK]", "abc"});
  CHECK(TokenizerOf({"##abc", "##de"}).EncodePieces("abc de") == Pieces{"[UNK]", "[UNK]"});
  CHECK(TokenizerOf({"##", "a", "##b"}).EncodePieces("ab #") == Pieces{"a", "##b", "[UNK]"});
}

// What tokenization.py does, by its definition.
void MatchBySubstrings(const std::map<std::string, int32_t>& ids, const std::string& word,
                       Ids& out) {
  const size_t before = out.size();
  for (size_t begin = 0; begin < word.size();) {
    size_t end = word.size();
    const std::string prefix = begin > 0 ? "##" : "";
    while (end > begin && !ids.contains(prefix + word.substr(begin, end - begin))) --end;
    if (end == begin) {
      out.resize(before);
      out.push_back(1);
      return;
    }
    out.push_back(ids.at(prefix + word.substr(begin, end - begin)));
    begin = end;
  }
}

TEST_CASE("random vocabularies give the pieces of matching substring by substring") {
  RandomStream random(RandomKey{.seed = 11});
  const auto below = [&](size_t n) { return random.NextUint32() % n; };
  const auto random_word = [&](size_t max_size) {
    std::string word;
    for (size_t n = 1 + below(max_size); n > 0; --n) word += "abc"[below(3)];
    return word;
  };
  for (int round = 0; round < 60; ++round) {
    std::set<std::string> chosen;
    for (size_t n = 1 + below(30); n > 0; --n) {
      chosen.insert((below(2) == 0 ? "" : "##") + random_word(5));
    }
    const Pieces pieces(chosen.begin(), chosen.end());
    const WordPieceTokenizer tokenizer = TokenizerOf(pieces);
    std::map<std::string, int32_t> ids;
    for (const std::string& piece : pieces) ids[piece] = tokenizer.IdOf(piece);
    WordPieceEncoder encoder(tokenizer);
    for (int i = 0; i < 40; ++i) {
      const std::string word = random_word(20);
      INFO(word << " by " << Catch::Detail::stringify(pieces));
      Ids expected;
      MatchBySubstrings(ids, word, expected);
      Ids actual;
      encoder.Encode(word, actual);
      REQUIRE(actual == expected);
      actual.clear();
      encoder.Encode(word, actual);  // now from memory
      REQUIRE(actual == expected);
    }
  }
}

TEST_CASE("a word of 200 characters is known to Google, of 100 to Hugging Face") {
  const WordPieceTokenizer google = LetterTokenizer();
  CHECK(google.options().max_word_chars == 200);
  CHECK(google.Encode(std::string(200, 'a')).size() == 200);
  CHECK(google.Encode(std::string(201, 'a')) == Ids{1});
  const WordPieceTokenizer hf = LetterTokenizer({.behavior = kHf});
  CHECK(hf.options().max_word_chars == 100);
  CHECK(hf.Encode(std::string(100, 'a')).size() == 100);
  CHECK(hf.Encode(std::string(101, 'a')) == Ids{1});
  const WordPieceTokenizer short_words = LetterTokenizer({.max_word_chars = 3});
  CHECK(short_words.EncodePieces("abc abcd") == Pieces{"a", "##b", "##c", "[UNK]"});
}

TEST_CASE("characters of a word are counted after they are normalised, not its bytes") {
  const WordPieceTokenizer tokenizer = LetterTokenizer({.max_word_chars = 3});
  CHECK(tokenizer.Encode("\u00e9\u00e9\u00e9").size() == 3);
  CHECK(tokenizer.Encode("e\u0301e\u0301e\u0301").size() == 3);
  CHECK(tokenizer.Encode("\u00e9\u00e9\u00e9\u00e9") == Ids{1});
}

TEST_CASE("bytes that are not UTF-8 are passed over") {
  const WordPieceTokenizer tokenizer = LetterTokenizer();
  const Pieces abc = {"a", "##b", "##c"};
  CHECK(tokenizer.EncodePieces("a\xFF"
                               "b\xC3"
                               "c\xE2\x82") == abc);
  CHECK(tokenizer.EncodePieces("a\xED\xA0\x80"
                               "b\xF4\x90\x80\x80"
                               "c\xC0\xAF") == abc);
  CHECK(tokenizer.EncodePieces("\x80\x80").empty());
}

TEST_CASE("accents and case are kept where the options say so") {
  const std::string text = "H\u00e9L";
  CHECK(LetterTokenizer().Words(text) == Pieces{"hel"});
  CHECK(LetterTokenizer({.lower_case = false}).Words(text) == Pieces{text});
  CHECK(LetterTokenizer({.strip_accents = false}).Words(text) == Pieces{"h\u00e9l"});
  CHECK(LetterTokenizer({.lower_case = false, .strip_accents = true}).Words(text) == Pieces{"HeL"});
}

TEST_CASE("CJK characters stay together where the options say so") {
  CHECK(LetterTokenizer().Words("ah\u535a\u63a8zz") == Pieces{"ah", "\u535a", "\u63a8", "zz"});
  CHECK(LetterTokenizer({.split_cjk = false}).Words("ah\u535a\u63a8zz") ==
        Pieces{"ah\u535a\u63a8zz"});
}

TEST_CASE("special tokens in a text count in Hugging Face's behaviour, or where asked for") {
  const Pieces pieces = {"a", "##a", "[", "]", "cls"};
  const std::string text = "a[CLS]a [cls] [MASK][[SEP]";
  const Pieces plain = {"a", "[",     "cls", "]", "a", "[",     "cls", "]",
                        "[", "[UNK]", "]",   "[", "[", "[UNK]", "]"};
  const Pieces matched = {"a", "[CLS]", "a", "[", "cls", "]", "[MASK]", "[", "[SEP]"};
  CHECK(TokenizerOf(pieces).EncodePieces(text) == plain);
  CHECK(TokenizerOf(pieces, {.behavior = kHf}).EncodePieces(text) == matched);
  CHECK(TokenizerOf(pieces, {.match_special_tokens = true}).EncodePieces(text) == matched);
  CHECK(TokenizerOf(pieces, {.behavior = kHf, .match_special_tokens = false}).EncodePieces(text) ==
        plain);
}

TEST_CASE("rows carry [CLS] and [SEP], and the second text's tokens are of type 1") {
  WordPieceEncoder encoder(LetterTokenizer());
  const auto id = [](char c) { return 5 + 2 * (c - 'a'); };
  Ids ids;
  Ids types;
  encoder.EncodePair("a b", "c", {}, ids, types);
  CHECK(ids == Ids{2, id('a'), id('b'), 3, id('c'), 3});
  CHECK(types == Ids{0, 0, 0, 0, 1, 1});
  encoder.EncodePair("a b", std::nullopt, {}, ids, types);
  CHECK(ids == Ids{2, id('a'), id('b'), 3});
  CHECK(types == Ids{0, 0, 0, 0});
  encoder.EncodePair("", std::nullopt, {}, ids, types);
  CHECK(ids == Ids{2, 3});
  encoder.EncodePair("", "c", {}, ids, types);
  CHECK(ids == Ids{2, 3, id('c'), 3});
  CHECK(types == Ids{0, 0, 1, 1});
}

TEST_CASE("an empty second text adds nothing for Google and a [SEP] for Hugging Face") {
  Ids ids;
  Ids types;
  WordPieceEncoder(LetterTokenizer()).EncodePair("a", " ", {}, ids, types);
  CHECK(ids == Ids{2, 5, 3});
  WordPieceEncoder(LetterTokenizer({.behavior = kHf})).EncodePair("a", "", {}, ids, types);
  CHECK(ids == Ids{2, 5, 3, 3});
  CHECK(types == Ids{0, 0, 0, 1});
}

struct Sides {
  size_t first;
  size_t second;
};

// By the definition of Google's run_classifier: pop the longer side, of equal ones the second.
Sides KeptByGoogle(Sides sides, size_t bound) {
  while (sides.first + sides.second > bound) {
    sides.first > sides.second ? --sides.first : --sides.second;
  }
  return sides;
}

// By the definition of `tokenizers`: the shorter side keeps all it can; where both lose, the longer
// one, or the second, keeps the odd token.
Sides KeptByHf(Sides sides, size_t bound) {
  if (sides.first + sides.second <= bound) return sides;
  const bool first_is_longer = sides.first > sides.second;
  size_t low = first_is_longer ? sides.second : sides.first;
  size_t high = low > bound ? low : std::max(low, bound - low);
  if (low + high > bound) {
    low = bound / 2;
    high = low + bound % 2;
  }
  return first_is_longer ? Sides{high, low} : Sides{low, high};
}

std::string Spaced(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += "a ";
  return text;
}

TEST_CASE("the longer side of a pair loses its end first") {
  for (const bool hf : {false, true}) {
    WordPieceEncoder encoder(LetterTokenizer({.behavior = hf ? kHf : WordPieceBehavior::kGoogle}));
    for (size_t first = 0; first < 8; ++first) {
      for (size_t second = 1; second < 8; ++second) {
        for (size_t bound = 0; bound < 16; ++bound) {
          const Sides kept =
              hf ? KeptByHf({first, second}, bound) : KeptByGoogle({first, second}, bound);
          CAPTURE(hf, first, second, bound);
          Ids ids;
          REQUIRE(encoder.EncodeRow(Spaced(first), Spaced(second),
                                    {.max_length = static_cast<int>(bound) + 3},
                                    ids) == static_cast<int64_t>(kept.first) + 2);
          REQUIRE(ids.size() == kept.first + kept.second + 3);
        }
      }
    }
  }
}

TEST_CASE("a single text loses its end") {
  WordPieceEncoder encoder(LetterTokenizer());
  Ids ids;
  CHECK(encoder.EncodeRow("a b c d", std::nullopt, {.max_length = 4}, ids) == 4);
  CHECK(ids == Ids{2, 5, 7, 3});
  ids.clear();
  encoder.EncodeRow("a b c d", std::nullopt, {.max_length = 6}, ids);
  CHECK(ids.size() == 6);
  CHECK_THROWS_AS(encoder.EncodeRow("a", "b", {.max_length = 2}, ids), CheckError);
}

TEST_CASE("ids become text again for messages") {
  const WordPieceTokenizer tokenizer = TokenizerOf({"un", "##want", "##ed", ",", "##"});
  CHECK(tokenizer.Decode(Ids{2, 5, 6, 7, 8, 5, 1, 3}) == "[CLS] unwanted , un [UNK] [SEP]");
  CHECK(tokenizer.Decode(Ids{6, 7}) == "##wanted");
  CHECK(tokenizer.Decode(Ids{5, 9}) == "un ##");
  CHECK(tokenizer.Decode({}).empty());
  CHECK_THROWS_AS(tokenizer.Decode(Ids{10}), CheckError);
  CHECK_THROWS_AS(tokenizer.Decode(Ids{-1}), CheckError);
}

TEST_CASE("ids of special tokens are those of the vocabulary") {
  const WordPieceTokenizer tokenizer =
      WordPieceTokenizer::FromVocabulary({"a", "[SEP]", "[UNK]", "[CLS]"}).value();
  CHECK(tokenizer.sep_id() == 1);
  CHECK(tokenizer.unk_id() == 2);
  CHECK(tokenizer.cls_id() == 3);
  CHECK(tokenizer.pad_id() == -1);
  CHECK(tokenizer.mask_id() == -1);
  CHECK(tokenizer.vocab_size() == 4);
  CHECK(tokenizer.IdOf("a") == 0);
  CHECK(tokenizer.IdOf("b") == -1);
  CHECK(tokenizer.Piece(0) == "a");
}

// Short words and long ones, ASCII and not, with every kind of space.
std::vector<std::string> MixedTexts() {
  std::vector<std::string> texts;
  for (int i = 0; i < 400; ++i) {
    texts.push_back("word" + std::to_string(i * 7919 % 911) + " na\u00efve\u2019s\t" +
                    std::string(static_cast<size_t>(i % 40), 'g') + "\u535a, don't! \x01x");
  }
  texts[17].clear();
  return texts;
}

TEST_CASE("a batch gives the rows of single texts, on any number of threads") {
  const WordPieceTokenizer tokenizer = LetterTokenizer();
  const std::vector<std::string> texts = MixedTexts();
  const std::vector<std::string_view> first(texts.begin(), texts.end());
  const std::vector<std::string_view> second(texts.rbegin(), texts.rend());
  for (const int num_threads : {1, 2, 3}) {
    WordPieceBatchEncoder encoder(tokenizer, num_threads);
    const EncodedTexts rows = encoder.Encode(first, second, {.max_length = 30});
    REQUIRE(rows.num_rows() == static_cast<int64_t>(texts.size()));
    for (size_t i = 0; i < texts.size(); ++i) {
      Ids expected;
      const int64_t type0 = WordPieceEncoder(tokenizer, 0)
                                .EncodeRow(first[i], second[i], {.max_length = 30}, expected);
      const std::span<const int32_t> row = rows.row(i);
      REQUIRE(Ids(row.begin(), row.end()) == expected);
      REQUIRE(rows.type0_sizes[i] == type0);
    }
  }
  WordPieceBatchEncoder encoder(tokenizer, 4);
  CHECK(encoder.Encode({}).offsets == std::vector<int64_t>{0});
  CHECK(encoder.Encode(std::vector<std::string_view>{"a"}).ids == Ids{2, 5, 3});
  CHECK_THROWS_AS(encoder.Encode(first, std::vector<std::string_view>{"a"}, {}), CheckError);
}

TEST_CASE("what an encoder remembers does not change its ids, however little room it has") {
  const WordPieceTokenizer tokenizer = LetterTokenizer();
  for (const size_t cache_bytes : {size_t{0}, size_t{64}, size_t{1000}, size_t{1} << 20}) {
    WordPieceEncoder encoder(tokenizer, cache_bytes);
    for (int pass = 0; pass < 2; ++pass) {
      for (const std::string& text : MixedTexts()) {
        Ids ids;
        encoder.Encode(text, ids);
        REQUIRE(ids == tokenizer.Encode(text));
      }
    }
  }
}

TEST_CASE("words that begin alike or hold NUL bytes are not taken for each other") {
  const WordPieceTokenizer tokenizer = LetterTokenizer();
  WordPieceEncoder encoder(tokenizer);
  using namespace std::string_literals;
  for (const std::string& text :
       {"a"s, "ab"s, "abcdefg"s, "abcdefgh"s, "abcdefghi"s, "abcdefghijklmno"s, "abcdefghijklmnop"s,
        "a\0"s, "a\0\0"s, "\0a"s, "A"s, "\u00e9"s, "\u00e9\0"s}) {
    for (int pass = 0; pass < 2; ++pass) {
      Ids ids;
      encoder.Encode(text + " " + text + "x " + text, ids);
      CHECK(ids == tokenizer.Encode(text + " " + text + "x " + text));
    }
  }
}

TEST_CASE("a text of a million characters without a space is encoded in the time of its length") {
  const WordPieceTokenizer tokenizer = LetterTokenizer();
  std::string text;
  while (text.size() < 1000000) text += "abcdefgh-";
  CHECK(tokenizer.Encode(text).size() > 800000);
  CHECK(tokenizer.Encode(text + "\u00e9").size() > 800000);
  CHECK(tokenizer.Encode(std::string(1000000, 'a')) == Ids{1});
  std::string sigmas = "a";
  while (sigmas.size() < 1000000) sigmas += "....\u03a3";
  CHECK(tokenizer.Encode(sigmas).size() > 600000);
}

TEST_CASE("the hash tells tokenizers apart by pieces, order and options") {
  const uint64_t hash = TokenizerOf({"a", "b"}).Hash();
  CHECK(hash == TokenizerOf({"a", "b"}).Hash());
  CHECK(hash == TokenizerOf({"a", "b"}, {.strip_accents = true, .max_word_chars = 200}).Hash());
  std::set<uint64_t> hashes = {hash};
  hashes.insert(TokenizerOf({"b", "a"}).Hash());
  hashes.insert(TokenizerOf({"ab"}).Hash());
  hashes.insert(TokenizerOf({"a", "b"}, {.behavior = kHf}).Hash());
  hashes.insert(TokenizerOf({"a", "b"}, {.lower_case = false}).Hash());
  hashes.insert(TokenizerOf({"a", "b"}, {.strip_accents = false}).Hash());
  hashes.insert(TokenizerOf({"a", "b"}, {.split_cjk = false}).Hash());
  hashes.insert(TokenizerOf({"a", "b"}, {.max_word_chars = 100}).Hash());
  hashes.insert(TokenizerOf({"a", "b"}, {.match_special_tokens = true}).Hash());
  CHECK(hashes.size() == 9);
}

}  // namespace
}  // namespace dtrain
