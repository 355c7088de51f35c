// wordpiece_trainer_test.cc - learned WordPiece vocabularies, by hand and against the tokenizer.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/wordpiece_trainer.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/base/status.h"
#include "dtrain/tokenizers/internal/bpe_text.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

using Pieces = std::vector<std::string>;

// Batches of `batch` lines.
StatusOr<LearnedWordPieces> TryLearn(const std::vector<std::string>& lines,
                                     const WordPieceTrainerOptions& options, size_t batch = 1000) {
  size_t next = 0;
  const auto source = [&](std::vector<std::string>& out) {
    while (out.size() < batch && next < lines.size()) out.push_back(lines[next++]);
    return OkStatus();
  };
  return LearnWordPiece(source, options);
}

Pieces Learn(const std::vector<std::string>& lines, const WordPieceTrainerOptions& options) {
  return TryLearn(lines, options).value().pieces;
}

Pieces After(const Pieces& pieces, size_t count) {
  REQUIRE(pieces.size() >= count);
  return {pieces.begin() + static_cast<std::ptrdiff_t>(count), pieces.end()};
}

bool Has(const Pieces& pieces, const std::string& piece) {
  return std::find(pieces.begin(), pieces.end(), piece) != pieces.end();
}

// Words of a few letters, short ones more often, some with marks and capitals.
std::vector<std::string> RandomLines(uint64_t seed, int count) {
  RandomStream random({.seed = seed});
  std::vector<std::string> lines;
  for (int i = 0; i < count; ++i) {
    std::string line;
    for (uint32_t length = random.NextBelow(40); length > 0; --length) {
      line += "abcA,   "[random.NextBelow(8)];
    }
    lines.push_back(line);
  }
  return lines;
}

TEST_CASE("a small text has the characters and merges that pencil and paper give") {
  const std::vector<std::string> lines = {"hug hug hug hug hug pun pun", "Pug, pug; hugs."};
  // Words: hug 5, pun 2, pug 2, hugs 1 and three marks. Pairs: ##u ##g 8, h ##u 6, p ##u 4, and ##u
  // ##n 2. After ##ug: h ##ug 6; then p ##u, p ##ug and ##u ##n have 2, the results "pu" and "##un"
  // are shorter than "pug", and "##un" sorts before "pu".
  const Pieces pieces = Learn(lines, {.vocab_size = 100});
  CHECK(pieces == Pieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ",",   ".",   ";",
                         "g",     "h",     "n",     "p",     "s",      "u",   "##g", "##n",
                         "##s",   "##u",   "##ug",  "hug",   "##un",   "pug", "pun"});
}

// The definition, with everything counted anew for every merge. Words of ASCII letters.
Pieces ReferenceMerges(const std::vector<Pieces>& split, size_t max_merges) {
  std::vector<Pieces> words = split;
  Pieces merges;
  const auto tail = [](const std::string& s) { return s.starts_with("##") ? s.substr(2) : s; };
  while (merges.size() < max_merges) {
    std::map<std::pair<std::string, std::string>, int> counts;
    for (const Pieces& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        ++counts[{word[i], word[i + 1]}];
        // Of "aaa" one pair can merge.
        const bool overlaps =
            i + 2 < word.size() && word[i] == word[i + 1] && word[i + 1] == word[i + 2];
        if (overlaps) ++i;
      }
    }
    std::tuple<int, size_t, std::string, size_t> best = {0, 0, "", 0};
    std::pair<std::string, std::string> pair;
    for (const auto& [candidate, count] : counts) {
      const std::string text = candidate.first + tail(candidate.second);
      const std::tuple key = {-count, tail(text).size(), text, tail(candidate.first).size()};
      if (count >= 2 && (std::get<0>(best) == 0 || key < best)) {
        best = key;
        pair = candidate;
      }
    }
    if (std::get<0>(best) == 0) break;
    const std::string merged = pair.first + tail(pair.second);
    if (!Has(merges, merged)) merges.push_back(merged);
    for (Pieces& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] != pair.first || word[i + 1] != pair.second) continue;
        word[i] = merged;
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return merges;
}

TEST_CASE("merges equal those of a learner that counts everything anew") {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const std::vector<std::string> lines = RandomLines(seed, 60);
    std::vector<Pieces> split;
    for (const std::string& line : lines) {
      bool starts = true;
      for (const char c : line) {
        const bool is_letter = c != ' ' && c != ',';
        if (is_letter && starts) split.emplace_back();
        // Both cases are one here.
        const std::string letter(1, c == 'A' ? 'a' : c);
        if (is_letter) split.back().push_back(starts ? letter : "##" + letter);
        starts = !is_letter;
      }
    }
    // Before the merges: 5 special tokens, a mark, three letters in two forms.
    CHECK(After(Learn(lines, {.vocab_size = 72}), 12) == ReferenceMerges(split, 60));
  }
}

TEST_CASE("the pieces depend neither on threads nor on batches nor on the order of lines") {
  std::vector<std::string> lines = RandomLines(42, 2000);
  const Pieces expected = Learn(lines, {.vocab_size = 200, .num_threads = 1});
  CHECK(expected.size() == 200);
  std::reverse(lines.begin(), lines.end());
  for (const int num_threads : {1, 2, 3, 8}) {
    CHECK(TryLearn(lines, {.vocab_size = 200, .num_threads = num_threads}, 77).value().pieces ==
          expected);
  }
}

TEST_CASE("a tokenizer that is told the same encodes every word of the text") {
  const std::vector<std::string> lines = {
      "Naïve façades, ΑΣ. Σοφός 12.5% of İstanbul's straße",
      "日本語テキスト and 한국어 and हिन्दी, don’t “quote” e\u0301\u0316t \xFF bro\xC3ken",
      "U+2581 \u2581is\u2581here, x\u200by a\u00adb \u212a \U0001F600smile \U0001d15e"};
  for (const WordPieceBehavior behavior :
       {WordPieceBehavior::kGoogle, WordPieceBehavior::kHuggingFace}) {
    for (const bool lower_case : {true, false}) {
      for (const bool strip_accents : {true, false}) {
        const WordPieceOptions words = {
            .behavior = behavior, .lower_case = lower_case, .strip_accents = strip_accents};
        const LearnedWordPieces learned =
            TryLearn(lines, {.words = words, .vocab_size = 1000, .min_frequency = 1}).value();
        const std::set<std::string> distinct(learned.pieces.begin(), learned.pieces.end());
        CHECK(distinct.size() == learned.pieces.size());
        const WordPieceTokenizer tokenizer =
            WordPieceTokenizer::FromVocabulary(learned.pieces, words).value();
        int64_t num_words = 0;
        for (const std::string& line : lines) {
          num_words += static_cast<int64_t>(tokenizer.Words(line).size());
          for (const int32_t id : tokenizer.Encode(line)) CHECK(id != tokenizer.unk_id());
        }
        CHECK(learned.words == num_words);
        CHECK(learned.unknown_words == 0);
        // Where pairs merge that occur once, each word is a piece in the end.
        for (const std::string& word : tokenizer.Words(lines[0])) {
          CHECK(Has(learned.pieces, word));
        }
      }
    }
  }
}

TEST_CASE("whatever characters a text has, the vocabulary can be read") {
  for (const WordPieceBehavior behavior :
       {WordPieceBehavior::kGoogle, WordPieceBehavior::kHuggingFace}) {
    std::vector<std::string> lines;
    for (uint32_t c = 0; c < 0x10000; ++c) {
      // Neither ideographs and syllables, which are all alike, nor surrogates.
      if (c == 0x3400) c = 0xF800;
      std::string character;
      AppendUtf8(c, character);
      lines.push_back("x" + character + "x" + character + " " + character);
    }
    const WordPieceOptions words = {.behavior = behavior, .lower_case = false};
    const Pieces pieces =
        Learn(lines, {.words = words, .vocab_size = 1000000, .limit_alphabet = 1000000});
    const auto tokenizer = WordPieceTokenizer::FromVocabulary(pieces, words);
    INFO(tokenizer.status().message());
    REQUIRE(tokenizer.ok());
    CHECK(tokenizer->vocab_size() > 20000);
  }
}

TEST_CASE("capitals and accents are told apart in cased vocabularies only") {
  const std::vector<std::string> lines(3, "Ärger ärger Arger");
  const Pieces uncased = Learn(lines, {.vocab_size = 100});
  CHECK(Has(uncased, "arger"));
  CHECK_FALSE(Has(uncased, "Ä"));
  CHECK_FALSE(Has(uncased, "ä"));
  const Pieces cased = Learn(lines, {.words = {.lower_case = false}, .vocab_size = 100});
  CHECK(Has(cased, "Ärger"));
  CHECK(Has(cased, "ärger"));
  CHECK(Has(cased, "Arger"));
  const Pieces accented =
      Learn(lines, {.words = {.lower_case = true, .strip_accents = false}, .vocab_size = 100});
  CHECK(Has(accented, "ärger"));
  CHECK_FALSE(Has(accented, "Ärger"));
}

TEST_CASE("CJK characters and punctuation are words of their own and never merge") {
  const std::vector<std::string> lines(5, "東京都 東京,東京");
  CHECK(After(Learn(lines, {.vocab_size = 100}), 5) == Pieces{",", "京", "東", "都"});
  const Pieces joined = Learn(lines, {.words = {.split_cjk = false}, .vocab_size = 100});
  CHECK(Has(joined, "東京"));
  CHECK(Has(joined, "東京都"));
}

TEST_CASE("beyond limit_alphabet the rarest characters and their words are left out") {
  const std::vector<std::string> lines(4, "abba abba abz zc abc");
  const LearnedWordPieces all = TryLearn(lines, {.vocab_size = 100}).value();
  CHECK(all.unknown_words == 0);
  CHECK(all.left_out_characters == 0);
  // a 6, b 6, z 2, c 2 in each line; c before z, as equally frequent ones go by code point.
  const LearnedWordPieces learned =
      TryLearn(lines, {.vocab_size = 100, .limit_alphabet = 3}).value();
  CHECK(After(learned.pieces, 5) ==
        Pieces{"a", "b", "c", "##a", "##b", "##c", "ab", "##ba", "abba", "abc"});
  CHECK(learned.words == 20);
  CHECK(learned.distinct_words == 4);
  CHECK(learned.unknown_words == 8);
  CHECK(learned.left_out_characters == 1);
}

TEST_CASE("a word that the tokenizer finds too long leaves nothing behind") {
  const std::vector<std::string> lines = {std::string(101, 'q') + " " + std::string(100, 'r')};
  const WordPieceOptions words = {.behavior = WordPieceBehavior::kHuggingFace};
  const LearnedWordPieces learned =
      TryLearn(lines, {.words = words, .vocab_size = 300, .min_frequency = 1}).value();
  CHECK_FALSE(Has(learned.pieces, "q"));
  CHECK(Has(learned.pieces, std::string(100, 'r')));
  CHECK(learned.unknown_words == 1);
  CHECK(Has(Learn(lines, {.vocab_size = 300}), "q"));  // Google's limit is 200
}

TEST_CASE("the vocabulary has the size asked for, and less where the text has no more to give") {
  const std::vector<std::string> lines = RandomLines(1, 500);
  CHECK(Learn(lines, {.vocab_size = 60}).size() == 60);
  CHECK(Learn(lines, {.vocab_size = 12}).size() == 12);  // no merge
  // 5 special tokens, a b ##b, ab.
  CHECK(Learn({"ab ab"}, {.vocab_size = 50}).size() == 9);
  CHECK(Learn({"ab ab"}, {.vocab_size = 50, .min_frequency = 3}).size() == 8);
}

TEST_CASE("a text without words, a vocabulary too small and wrong options are errors") {
  const auto error = [](const std::vector<std::string>& lines,
                        const WordPieceTrainerOptions& options, ExitCode code) {
    const Status status = TryLearn(lines, options).status();
    CHECK(status.code() == code);
    return std::string(status.message());
  };
  CHECK(error({"", " \t"}, {}, ExitCode::kData) ==
        "no vocabulary can be learned: the text has no words");
  CHECK(error({}, {}, ExitCode::kData) == "no vocabulary can be learned: the text has no words");
  CHECK(error({std::string(500, 'a')}, {}, ExitCode::kData) ==
        "no vocabulary can be learned: none of the 1 words has at most 200 characters of the "
        "alphabet");
  CHECK(error({"abc"}, {.vocab_size = 9}, ExitCode::kUsage) ==
        "vocab_size 9 is too small: the special tokens and the characters, alone and as parts of "
        "words, need 10; raise it or lower limit_alphabet");
  CHECK(error({"abc"}, {.min_frequency = 0}, ExitCode::kUsage) ==
        "min_frequency must be at least 1, not 0");
  CHECK(error({"abc"}, {.limit_alphabet = 0}, ExitCode::kUsage) ==
        "limit_alphabet must be at least 1, not 0");
  CHECK_THAT(error({"abc"}, {.words = {.max_word_chars = 1001}}, ExitCode::kUsage),
             Catch::StartsWith("max_word_chars is 1001"));
  const auto source = [](std::vector<std::string>&) { return DataError("wiki.txt: gone"); };
  CHECK(LearnWordPiece(source, {}).status().message() == "wiki.txt: gone");
}

}  // namespace
}  // namespace dtrain
