// bpe_trainer_test.cc - learned merges against a plain reference.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/bpe_trainer.h"

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/base/status.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

using Pieces = std::vector<std::string>;

Pieces TextsOf(const BpeModel& model) {
  Pieces texts;
  for (const BpePiece& piece : model.vocabulary().pieces) {
    if (piece.type == BpePieceType::kNormal) texts.push_back(piece.text);
  }
  return texts;
}

BpeModel Learn(const std::vector<std::string>& lines, const BpeTrainerOptions& options) {
  WordCounter counter(1);
  counter.Add(lines);
  return LearnBpe(counter, options).value();
}

// Words of the letters a, b and c, short ones more often.
std::vector<std::string> RandomLines(uint64_t seed, int count) {
  RandomStream random({.seed = seed});
  std::vector<std::string> lines;
  for (int i = 0; i < count; ++i) {
    std::string line;
    for (uint32_t length = random.NextBelow(20); length > 0; --length) {
      line += "abc  "[random.NextBelow(5)];
    }
    lines.push_back(line);
  }
  return lines;
}

// The definition, with everything counted anew for every merge. ASCII words without digits.
Pieces ReferenceMerges(const std::vector<std::string>& lines, size_t max_merges,
                       size_t max_length) {
  std::map<Pieces, int> words;
  for (const std::string& line : lines) {
    Pieces word;
    for (const char c : line + " ") {
      if (c != ' ') {
        if (word.empty()) word.push_back("▁");
        word.emplace_back(1, c);
      } else if (!word.empty()) {
        ++words[word];
        word.clear();
      }
    }
  }
  const auto length = [](const std::string& s) { return s.size() - (s.starts_with("▁") ? 2 : 0); };
  Pieces merges;
  std::set<std::string> seen;
  while (merges.size() < max_merges) {
    std::map<std::pair<std::string, std::string>, int> counts;
    for (const auto& [word, count] : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        counts[{word[i], word[i + 1]}] += count;
        const bool overlaps =
            i + 2 < word.size() && word[i] == word[i + 1] && word[i + 1] == word[i + 2];
        if (overlaps) ++i;
      }
    }
    std::tuple<int, size_t, std::string, size_t> best = {0, 0, "", 0};
    std::pair<std::string, std::string> pair;
    for (const auto& [candidate, count] : counts) {
      const std::string text = candidate.first + candidate.second;
      if (count < 2 || length(text) > max_length) continue;
      const std::tuple key = {-count, length(text), text, length(candidate.first)};
      if (std::get<0>(best) == 0 || key < best) {
        best = key;
        pair = candidate;
      }
    }
    if (std::get<0>(best) == 0) break;
    const std::string merged = pair.first + pair.second;
    if (seen.insert(merged).second) merges.push_back(merged);
    std::map<Pieces, int> rewritten;
    for (const auto& [word, count] : words) {
      Pieces out;
      for (size_t i = 0; i < word.size(); ++i) {
        const bool here =
            i + 1 < word.size() && word[i] == pair.first && word[i + 1] == pair.second;
        out.push_back(here ? merged : word[i]);
        i += here;
      }
      rewritten[out] += count;
    }
    words = std::move(rewritten);
  }
  return merges;
}

TEST_CASE("the most frequent pair comes first, of equal ones the shorter, then the first by name") {
  WordCounter counter(1);
  counter.AddWord("ab", 5);
  counter.AddWord("cb", 5);
  counter.AddWord("xyz", 7);
  const BpeModel model = LearnBpe(counter, {.vocab_size = 100, .min_frequency = 5}).value();
  // Seven times: xy, yz, ▁x tie and sort so; five times: ab, cb and ▁a, ▁c.
  const Pieces texts = TextsOf(model);
  CHECK(texts[0] == "xy");
  CHECK(texts[1] == "xyz");
  CHECK(texts[2] == "▁xyz");
  CHECK(texts[3] == "ab");
  CHECK(texts[4] == "cb");
  CHECK(texts[5] == "▁ab");
  CHECK(texts[6] == "▁cb");
  // Then the characters by frequency: ▁ 17, b 10, x y z 7, a c 5.
  CHECK(Pieces(texts.begin() + 7, texts.end()) == Pieces{"▁", "b", "x", "y", "z", "a", "c"});
}

TEST_CASE("merges equal those of a learner that counts everything anew") {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const std::vector<std::string> lines = RandomLines(seed, 60);
    const Pieces reference = ReferenceMerges(lines, 60, 6);
    Pieces texts = TextsOf(Learn(lines, {.vocab_size = 68, .max_piece_length = 6}));
    REQUIRE(texts.size() == reference.size() + 4);
    texts.resize(reference.size());
    CHECK(texts == reference);
  }
}

TEST_CASE("the vocabulary does not depend on threads, batches or the order of lines") {
  std::vector<std::string> lines = RandomLines(42, 2000);
  const BpeTrainerOptions options = {.vocab_size = 200};
  const uint64_t hash = Learn(lines, options).Hash();
  for (const int num_threads : {1, 2, 4}) {
    size_t next = lines.size();
    const auto source = [&](std::vector<std::string>& batch) {
      while (batch.size() < 77 && next > 0) batch.push_back(lines[--next]);
      return OkStatus();
    };
    BpeTrainerOptions threaded = options;
    threaded.num_threads = num_threads;
    CHECK(LearnBpe(source, threaded).value().Hash() == hash);
  }
}

TEST_CASE("the vocabulary has the size asked for, and less where the text has no more to give") {
  const std::vector<std::string> lines = RandomLines(1, 500);
  CHECK(Learn(lines, {.vocab_size = 50}).vocab_size() == 50);
  CHECK(Learn(lines, {.vocab_size = 300, .byte_fallback = true}).vocab_size() == 300);
  CHECK(Learn({"ab ab"}, {.vocab_size = 50}).vocab_size() ==
        9);  // 4 control, 3 characters, 2 merges
}

TEST_CASE("letters do not merge with punctuation, digits or letters of another script") {
  const std::vector<std::string> lines(10, "Haus. x2 яblue 12.5 カナ漢字 e\u0301t");
  const Pieces texts = TextsOf(Learn(lines, {.vocab_size = 200}));
  const std::set<std::string> all(texts.begin(), texts.end());
  CHECK(all.contains("▁Haus"));
  CHECK_FALSE(all.contains("▁Haus."));
  CHECK_FALSE(all.contains("▁x2"));
  CHECK(all.contains("▁12.5"));
  CHECK_FALSE(all.contains("▁яblue"));
  CHECK(all.contains("blue"));
  CHECK(all.contains("▁カナ漢字"));
  CHECK(all.contains("▁e\u0301t"));
  const Pieces mixed = TextsOf(Learn(lines, {.vocab_size = 200, .split_by_script = false}));
  CHECK(std::set<std::string>(mixed.begin(), mixed.end()).contains("▁Haus."));
  for (const std::string& text : TextsOf(Learn(lines, {.vocab_size = 200, .split_digits = true}))) {
    CHECK((text.size() == 1 || text.find_first_of("0123456789") == std::string::npos));
  }
}

TEST_CASE("rare characters are left out where the coverage says so") {
  std::vector<std::string> lines(99, "aaaaaaaaaa");
  lines.push_back("zzaaaaaaaa");
  CHECK(Learn(lines, {.vocab_size = 50}).Encode("z").back() != 0);
  const BpeModel model = Learn(lines, {.vocab_size = 50, .character_coverage = 0.99});
  CHECK(model.Encode("z").back() == model.unk_id());
}

TEST_CASE("bytes that are not UTF-8 and NUL make no piece") {
  const BpeModel model = Learn({std::string("a\0b a\0b", 7), "\xFF\xFE"}, {.vocab_size = 50});
  for (const std::string& text : TextsOf(model)) {
    CHECK(text.find('\0') == std::string::npos);
    CHECK(text.find('\xFF') == std::string::npos);
  }
}

TEST_CASE("a corpus without words, a vocabulary too small and wrong options are errors") {
  const auto error = [](const std::vector<std::string>& lines, const BpeTrainerOptions& options,
                        ExitCode code) {
    WordCounter counter(1);
    counter.Add(lines);
    const Status status = LearnBpe(counter, options).status();
    CHECK(status.code() == code);
    return std::string(status.message());
  };
  CHECK(error({"", "  "}, {}, ExitCode::kData) ==
        "no vocabulary can be learned: the corpus holds no words");
  CHECK(error({"abc"}, {.vocab_size = 7}, ExitCode::kUsage) ==
        "vocab_size 7 is too small: the 4 characters of the corpus and the control pieces need 8; "
        "raise it or lower character_coverage");
  CHECK(error({"abc"}, {.max_piece_length = 0}, ExitCode::kUsage) ==
        "max_piece_length must be at least 1, not 0");
  CHECK(error({"abc"}, {.character_coverage = 1.5}, ExitCode::kUsage) ==
        "character_coverage must be above 0 and at most 1, not 1.5");
  CHECK(error({"abc"}, {.min_frequency = 0}, ExitCode::kUsage) ==
        "min_frequency must be at least 1, not 0");
}

TEST_CASE("user-defined pieces follow the marks, whatever the text merges to") {
  const auto learn = [](const std::vector<std::string>& user_defined) {
    WordCounter counter(1);
    counter.AddWord("abab", 10);
    counter.AddWord("cd", 5);
    return LearnBpe(counter, {.vocab_size = 30, .user_defined = user_defined});
  };
  const BpeModel model = learn({"<two>", "ab"}).value();
  CHECK(model.Piece(3) == "<two>");
  CHECK(model.Piece(4) == "ab");
  CHECK(model.EncodePieces("<two> cd<two>") ==
        std::vector<std::string>{"▁", "<two>", "▁cd", "<two>"});
  CHECK(model.Encode("<two> abab") ==
        std::vector<int32_t>{model.Encode("<two>")[0], 3, model.Encode("<two>")[0], 4, 4});
  CHECK(model.Decode(model.Encode("<two> abab cd")) == "<two> abab cd");
  for (const std::string text :
       {"", "a", "ä", "a b", "a\t", "a▁", "<s>", "<pad>", "<0x41>", "\xFF\xFF"}) {
    INFO(text);
    CHECK(learn({text}).status().code() == ExitCode::kUsage);
  }
  CHECK(learn({"<a>", "<a>"}).status().message() == "'<a>' is given twice as a piece");
}

TEST_CASE("an error of the line source ends learning") {
  const auto source = [](std::vector<std::string>&) { return DataError("train.en: gone"); };
  CHECK(LearnBpe(LineSource(source), {}).status().message() == "train.en: gone");
}

}  // namespace
}  // namespace dtrain
