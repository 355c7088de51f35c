// unigram_trainer_test.cc - learned Unigram vocabularies: their parts by definition, and in use.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/unigram_trainer.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/tokenizers/internal/seed_pieces.h"
#include "dtrain/tokenizers/internal/unigram_estimator.h"
#include "dtrain/tokenizers/internal/unigram_lattice.h"
#include "dtrain/tokenizers/text_tokenizer.h"
#include "dtrain/tokenizers/unigram.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

using Json = nlohmann::json;
using Lines = std::vector<std::string>;
using internal::PieceTrie;
using internal::SeedPiece;
using internal::UnigramEstimator;
using internal::UnigramLattice;
using internal::UnigramWeights;
using internal::UnigramWords;

const Json& Golden() {
  static const Json golden = [] {
    std::ifstream file(testing::GoldenPath("learned.json"));
    REQUIRE(file.good());
    return Json::parse(file);
  }();
  return golden;
}

StatusOr<LearnedUnigram> TryLearn(const Lines& lines, const UnigramTrainerOptions& options,
                                  size_t batch = 1000) {
  size_t next = 0;
  const auto source = [&](Lines& out) {
    while (out.size() < batch && next < lines.size()) out.push_back(lines[next++]);
    return OkStatus();
  };
  return LearnUnigram(source, options);
}

// The words of `counts`, without the spaces in front of them in real text.
UnigramWords WordsOf(const std::map<std::string, int64_t>& counts) {
  UnigramWords words;
  std::map<char, int64_t> characters;
  for (const auto& [text, count] : counts) {
    words.words.push_back({words.text.size(), static_cast<uint32_t>(text.size()), count});
    words.text += text;
    for (const char c : text) characters[c] += count;
  }
  for (const auto& [c, count] : characters) words.characters.emplace_back(std::string(1, c), count);
  return words;
}

std::map<std::string, int64_t> RandomWords(uint64_t seed, int count) {
  RandomStream random({.seed = seed});
  std::map<std::string, int64_t> words;
  for (int i = 0; i < count; ++i) {
    std::string word;
    for (uint32_t length = 1 + random.NextBelow(7); length > 0; --length) {
      word += static_cast<char>('a' + random.NextBelow(3));
    }
    words[word] += 1 + random.NextBelow(3);
  }
  return words;
}

std::vector<SeedPiece> Seeds(const UnigramWords& words, const internal::SeedOptions& options) {
  return internal::SeedPieces(words, options).value();
}

std::map<std::string, double> MapOf(const std::vector<SeedPiece>& pieces) {
  std::map<std::string, double> scores;
  for (const SeedPiece& piece : pieces) CHECK(scores.emplace(piece.text, piece.score).second);
  return scores;
}

TEST_CASE("seeds are the repeated parts of words that no longer part explains") {
  constexpr size_t kLongest = 5;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto words = RandomWords(seed, 30);
    std::map<std::string, int64_t> counts;
    for (const auto& [word, count] : words) {
      for (size_t begin = 0; begin < word.size(); ++begin) {
        for (size_t size = 1; size <= kLongest && begin + size <= word.size(); ++size) {
          counts[word.substr(begin, size)] += count;
        }
      }
    }
    std::map<std::string, double> expected;
    for (const auto& [part, count] : counts) {
      bool is_explained = false;
      for (const char c : {'a', 'b', 'c'}) {
        const auto longer = counts.find(part + c);
        is_explained |= longer != counts.end() && longer->second == count;
      }
      const bool is_character = part.size() == 1;
      if (is_character || (count >= 2 && !is_explained)) {
        expected[part] = static_cast<double>(count) * static_cast<double>(part.size());
      }
    }
    const auto found = internal::SeedPieces(WordsOf(words), {.max_piece_length = kLongest}).value();
    CHECK(MapOf(found) == expected);
    // With a limit, those with the highest scores.
    const std::vector<SeedPiece> limited =
        Seeds(WordsOf(words), {.limit = 5, .max_piece_length = kLongest});
    CHECK(std::equal(limited.begin(), limited.end(), found.begin(),
                     [](const SeedPiece& a, const SeedPiece& b) { return a.text == b.text; }));
    CHECK(limited.size() == std::min<size_t>(found.size(), 3 + 5));
  }
}

TEST_CASE("seeds have letters of one script, and digits alone if they are split") {
  const UnigramWords words = WordsOf({{"ab12ab12", 3}});
  const auto texts = [&](const internal::SeedOptions& options) {
    Lines all;
    for (const SeedPiece& piece : Seeds(words, options)) {
      if (piece.text.size() > 1) all.push_back(piece.text);
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  CHECK(texts({}) == Lines{"12"});
  CHECK(texts({.split_digits = true}).empty());
  CHECK_THAT(texts({.split_by_script = false}), Catch::VectorContains(std::string("ab12")));
}

// All ways to cut the word, as lists of ids.
void ForEachWay(const std::string& word, const Lines& pieces, std::vector<int32_t>& way,
                const std::function<void(const std::vector<int32_t>&)>& take) {
  if (word.empty()) return take(way);
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (!word.starts_with(pieces[id])) continue;
    way.push_back(static_cast<int32_t>(id));
    ForEachWay(word.substr(pieces[id].size()), pieces, way, take);
    way.pop_back();
  }
}

TEST_CASE("expected counts and the best way are those of all ways, one by one") {
  const Lines pieces = {"a", "b", "c", "ab", "bc", "abc", "ca", "aa", "cab"};
  UnigramWeights weights;
  RandomStream random({.seed = 3});
  for (size_t i = 0; i < pieces.size(); ++i) {
    weights.scores.push_back(-1.0 - 4.0 * static_cast<double>(random.NextUniform()));
  }
  weights.unknown = -20.0;
  const PieceTrie trie{std::span<const std::string>(pieces)};
  UnigramLattice lattice(trie, weights);
  for (const std::string word : {"a", "abc", "abcabcab", "aaaaaaa", "cabcabaabc"}) {
    INFO(word);
    std::vector<double> expected(pieces.size(), 0.0);
    double total = 0.0;
    double best = -1e9;
    std::vector<int32_t> best_way;
    std::vector<int32_t> scratch;
    ForEachWay(word, pieces, scratch, [&](const std::vector<int32_t>& way) {
      double sum = 0.0;
      for (const int32_t id : way) sum += weights.scores[static_cast<size_t>(id)];
      total += std::exp(sum);
      for (const int32_t id : way) expected[static_cast<size_t>(id)] += std::exp(sum);
      if (sum > best) {
        best = sum;
        best_way = way;
      }
    });
    std::vector<double> counts(pieces.size(), 0.0);
    CHECK(lattice.Expect(word, 7, counts) == Approx(std::log(total)).epsilon(1e-12));
    for (size_t id = 0; id < pieces.size(); ++id) {
      CHECK(counts[id] == Approx(7 * expected[id] / total).epsilon(1e-12).margin(1e-12));
    }
    const auto way = lattice.BestWay(word);
    CHECK(std::vector<int32_t>(way.rbegin(), way.rend()) == best_way);
  }
  // What is no piece costs the unknown score; a piece that is left out is not used.
  std::vector<double> counts(pieces.size(), 0.0);
  CHECK(lattice.Expect("x", 1, counts) == -20.0);
  CHECK(lattice.BestWay("x")[0] == UnigramLattice::kUnknown);
  const auto without = lattice.BestWay("abc", /*without=*/5);
  CHECK(std::find(without.begin(), without.end(), 5) == without.end());
}

TEST_CASE("a word of thousands of characters has a finite likelihood") {
  const Lines pieces = {"a", "aa", "aaa"};
  const PieceTrie trie{std::span<const std::string>(pieces)};
  const UnigramWeights weights{.scores = {-15.0, -31.0, -44.0}, .unknown = -60.0};
  UnigramLattice lattice(trie, weights);
  std::vector<double> counts(3, 0.0);
  const double log = lattice.Expect(std::string(4000, 'a'), 1, counts);
  CHECK(std::isfinite(log));
  CHECK(log < -4000.0 * 14);
  CHECK(counts[0] + 2 * counts[1] + 3 * counts[2] == Approx(4000.0));
}

TEST_CASE("rounds raise the likelihood, and pruning drops what the text misses least") {
  const UnigramWords words = WordsOf({{"xyxy", 50}, {"xyz", 40}, {"zab", 30}, {"ab", 20}});
  const std::vector<SeedPiece> seeds = Seeds(words, {});
  UnigramEstimator estimator(words, seeds, 2);
  const double first = estimator.Improve();
  double last = first;
  for (int i = 0; i < 3; ++i) last = estimator.Improve();
  CHECK(last > first);
  const auto left = [&](size_t size) {
    estimator.Prune(size);
    Lines texts;
    for (const internal::UnigramPiece& piece : estimator.pieces()) texts.push_back(piece.text);
    CHECK(estimator.size() == texts.size());
    std::sort(texts.begin(), texts.end());
    return texts;
  };
  // The best ways are the words themselves. "zab" goes first, as "ab" takes the place of a part.
  CHECK(left(8) == Lines{"ab", "xyxy", "xyz", "zab"});
  CHECK(left(3) == Lines{"ab", "xyxy", "xyz"});
}

Lines TextsOf(const LearnedUnigram& learned) {
  Lines texts;
  for (const LearnedUnigram::Piece& piece : learned.pieces) texts.push_back(piece.text);
  return texts;
}

TEST_CASE("the pieces depend neither on threads nor on batches nor on the order of lines") {
  auto lines = Golden()["lines"].get<Lines>();
  const std::string expected =
      UnigramModelProto(TryLearn(lines, {.vocab_size = 600, .num_threads = 1}).value());
  std::reverse(lines.begin(), lines.end());
  for (const int num_threads : {2, 3, 8}) {
    const LearnedUnigram learned =
        TryLearn(lines, {.vocab_size = 600, .num_threads = num_threads}, 7).value();
    CHECK(UnigramModelProto(learned) == expected);
  }
}

TEST_CASE("unseen text is as likely as by SentencePiece's vocabulary, and as short") {
  const auto held_out = Golden()["held_out"].get<Lines>();
  auto lines = Golden()["lines"].get<Lines>();
  lines.resize(600);  // those that SentencePiece had
  REQUIRE(Golden()["unigram"].size() == 2);
  for (const Json& setting : Golden()["unigram"]) {
    const LearnedUnigram learned =
        TryLearn(lines, {.vocab_size = setting["vocab_size"].get<int32_t>()}).value();
    CHECK(learned.vocab_size() == setting["vocab_size"]);
    const auto tokenizer =
        UnigramTokenizer::FromModelProto(UnigramModelProto(learned), "learned").value();
    UnigramEncoder encoder(tokenizer);
    double tokens = 0.0;
    double likelihood = 0.0;
    const auto specials = static_cast<int32_t>(learned.special.texts.size());
    for (const std::string& line : held_out) {
      std::vector<int32_t> ids;
      encoder.Encode(line, ids);
      for (const int32_t id : ids) {
        if (id == tokenizer.unk_id()) continue;
        tokens += 1.0;
        likelihood += static_cast<double>(learned.pieces[static_cast<size_t>(id - specials)].score);
      }
    }
    INFO(setting << " ours: " << tokens << " " << likelihood);
    CHECK(tokens < 1.02 * setting["tokens"].get<double>());
    CHECK(likelihood > setting["log_likelihood"].get<double>());
  }
}

TEST_CASE("both files are read, give the same ids, and text survives them") {
  const auto lines = Golden()["lines"].get<Lines>();
  const LearnedUnigram learned =
      TryLearn(lines, {.vocab_size = 600, .character_coverage = 1.0}).value();
  const auto json = UnigramTokenizer::FromJson(UnigramJson(learned), "json").value();
  const auto proto = UnigramTokenizer::FromModelProto(UnigramModelProto(learned), "spm").value();
  REQUIRE(json.vocab_size() == 600);
  REQUIRE(proto.vocab_size() == 600);
  CHECK(json.Piece(0) == "<s>");
  CHECK(json.unk_id() == 3);
  CHECK(proto.unk_id() == 3);
  UnigramEncoder first(json);
  UnigramEncoder second(proto);
  for (const std::string& line : lines) {
    if (line.find("<s>") != std::string::npos || line.find('\t') != std::string::npos) continue;
    INFO(line);
    std::vector<int32_t> ids;
    std::vector<int32_t> others;
    first.Encode(line, ids);
    second.Encode(line, others);
    CHECK(ids == others);
    CHECK(std::find(ids.begin(), ids.end(), 3) == ids.end());
    std::string spaced = line;  // runs of spaces become one, those at the ends vanish
    spaced.erase(std::unique(spaced.begin(), spaced.end(),
                             [](char a, char b) { return a == ' ' && b == ' '; }),
                 spaced.end());
    while (spaced.starts_with(' ')) spaced.erase(0, 1);
    CHECK(json.Decode(ids) == spaced);
    CHECK(proto.Decode(ids) == spaced);
  }
  std::vector<int32_t> ids;
  std::vector<int32_t> types;
  first.EncodeRow("a <mask>", "b", 0, ids, types);
  REQUIRE(ids.size() >= 7);
  CHECK(ids.front() == 0);
  CHECK(std::count(ids.begin(), ids.end(), 2) == 3);
  CHECK(std::count(ids.begin(), ids.end(), 4) == 1);
  CHECK(ids.back() == 2);
}

TEST_CASE("a folder with other special tokens is one for the encoders") {
  const TemporaryFolder folder;
  const SpecialTokens special{{"[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"}};
  const LearnedUnigram learned =
      TryLearn({"one two one two"}, {.vocab_size = 20, .special = special}).value();
  const std::string path = folder.Write("tokenizer.json", UnigramJson(learned));
  const TextTokenizer tokenizer = TextTokenizer::Load(path).value();
  CHECK(tokenizer.kind() == "Unigram");
  CHECK(tokenizer.Piece(tokenizer.cls_id()) == "[CLS]");
  CHECK(tokenizer.Piece(tokenizer.sep_id()) == "[SEP]");
  CHECK(tokenizer.Piece(tokenizer.mask_id()) == "[MASK]");
}

TEST_CASE("every character that is covered is a piece, rare ones are unknown") {
  Lines lines(50, "abc abd");
  lines.push_back("xyz");
  const Lines all = TextsOf(TryLearn(lines, {.vocab_size = 40, .character_coverage = 1.0}).value());
  for (const char* const c : {"a", "b", "c", "d", "x", "y", "z", "▁"}) {
    CHECK_THAT(all, Catch::VectorContains(std::string(c)));
  }
  CHECK_THAT(all, Catch::VectorContains(std::string("▁abc")));
  const LearnedUnigram covered =
      TryLearn(lines, {.vocab_size = 40, .character_coverage = 0.98}).value();
  CHECK_THAT(TextsOf(covered), !Catch::VectorContains(std::string("z")));
  CHECK(covered.characters == 5);
}

TEST_CASE("a word of more than 4096 bytes is counted and left out") {
  const LearnedUnigram learned =
      TryLearn({std::string(4097, 'x') + " yy yy"}, {.vocab_size = 30}).value();
  CHECK(learned.long_words == 1);
  CHECK(learned.words == 3);
  for (const std::string& text : TextsOf(learned)) CHECK(text.find("xx") == std::string::npos);
}

TEST_CASE("no text, a vocabulary too small and wrong options are errors") {
  const auto error = [](const Lines& lines, const UnigramTrainerOptions& options, ExitCode code) {
    const Status status = TryLearn(lines, options).status();
    CHECK(status.code() == code);
    return std::string(status.message());
  };
  const std::string none = "no vocabulary can be learned: the text has no words";
  CHECK(error({}, {}, ExitCode::kData) == none);
  CHECK(error({"", "  "}, {}, ExitCode::kData) == none);
  CHECK(error({std::string(5000, 'a')}, {}, ExitCode::kData) ==
        "no vocabulary can be learned: all of the 1 words have more than 4096 bytes");
  CHECK(error({"abc"}, {.vocab_size = 8}, ExitCode::kUsage) ==
        "vocab_size 8 is too small: the 4 characters of the text and the special tokens need 9; "
        "raise it or lower character_coverage");
  CHECK(error({"a"}, {.character_coverage = 0.0}, ExitCode::kUsage) ==
        "character_coverage must be above 0 and at most 1, not 0");
  CHECK(error({"a"}, {.max_piece_length = 0}, ExitCode::kUsage) ==
        "max_piece_length must be at least 1, not 0");
  CHECK(error({"a"}, {.shrinking_factor = 1.0}, ExitCode::kUsage) ==
        "shrinking_factor must be between 0 and 1, not 1");
  CHECK(error({"a"}, {.sub_iterations = 0}, ExitCode::kUsage) ==
        "sub_iterations must be at least 1, not 0");
  CHECK(error({"a"}, {.seed_size = -1}, ExitCode::kUsage) ==
        "seed_size must be at least 0, not -1");
  CHECK_THAT(error({"ab ab"}, {.special = {{"a", "b>", "c>", "d>", "e>"}}}, ExitCode::kUsage),
             Catch::StartsWith("special token \"a\" is also a piece that was learned"));
}

}  // namespace
}  // namespace dtrain
