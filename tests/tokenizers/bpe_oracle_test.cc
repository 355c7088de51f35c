// bpe_oracle_test.cc - the same pieces and texts as SentencePiece's own programs.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/bpe.h"
#include "dtrain/tokenizers/bpe_trainer.h"
#include "testing/catch.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

bool HaveSentencePiece() {
  static const bool have = std::system("command -v spm_encode spm_decode > /dev/null 2>&1") == 0;
  if (!have) WARN("skipped: spm_encode is not installed (Debian package sentencepiece)");
  return have;
}

std::vector<std::string> ReadLines(const fs::path& path, size_t limit) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  std::string line;
  while (lines.size() < limit && std::getline(file, line)) lines.push_back(line);
  return lines;
}

// What `program` prints for `lines`, with the model saved for it.
std::vector<std::string> Ask(const std::string& program, const BpeModel& model,
                             const std::vector<std::string>& lines) {
  const fs::path base =
      fs::temp_directory_path() / ("dtrain_bpe_oracle_test_" + std::to_string(getpid()));
  const std::string path = base.string();
  REQUIRE(model.Save(path + ".spm").ok());
  std::ofstream in(path + ".in", std::ios::binary);
  for (const std::string& line : lines) in << line << '\n';
  in.close();
  const std::string command =
      program + " --model=" + path + ".spm < " + path + ".in > " + path + ".out 2> /dev/null";
  REQUIRE(std::system(command.c_str()) == 0);
  std::vector<std::string> answer = ReadLines(path + ".out", lines.size() + 1);
  for (const char* suffix : {".spm", ".in", ".out"}) fs::remove(path + suffix);
  return answer;
}

template <typename Items, typename Text>
std::string Join(const Items& items, const Text& text) {
  std::string out;
  for (const auto& item : items) {
    if (!out.empty()) out += ' ';
    out += text(item);
  }
  return out;
}

// Compares pieces, ids and decoded text; returns how many lines differ.
size_t CountDifferences(const BpeModel& model, const std::vector<std::string>& lines) {
  const auto pieces = Ask("spm_encode --output_format=piece", model, lines);
  const auto ids = Ask("spm_encode --output_format=id", model, lines);
  const auto texts = Ask("spm_decode --input_format=id", model, ids);
  REQUIRE(pieces.size() == lines.size());
  REQUIRE(ids.size() == lines.size());
  REQUIRE(texts.size() == lines.size());
  const EncodedLines encoded = EncodeLines(model, lines, 2);
  size_t differences = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string our_pieces =
        Join(model.EncodePieces(lines[i]), [](const std::string& s) { return s; });
    const std::string our_ids =
        Join(encoded.line(i), [](int32_t id) { return std::to_string(id); });
    const std::string our_text = model.Decode(encoded.line(i));
    // SentencePiece encodes invisible characters; here a line of nothing else is an empty one.
    if (IsBlank(lines[i])) continue;
    const bool same = our_pieces == pieces[i] && our_ids == ids[i] && our_text == texts[i];
    if (same) continue;
    if (++differences == 1) {
      UNSCOPED_INFO("line " << i << ": " << lines[i] << "\n"
                            << pieces[i] << "\n"
                            << ids[i] << "\n"
                            << texts[i] << "\nours:\n"
                            << our_pieces << "\n"
                            << our_ids << "\n"
                            << our_text);
    }
  }
  return differences;
}

// Letters, spaces of all kinds, marks, emoji, U+2581, bytes that are no UTF-8.
std::vector<std::string> RandomLines(uint64_t seed, size_t count) {
  static const std::vector<std::string> kParts = {
      "a",    "b",        "c",           "e",      "n",      " ",      " ",        "  ",
      "ä",    "ß",        "e\u0301",     "\t",     "\u00A0", "▁",      "▁▁",       "日",
      "本",   "😀",        "👩‍👧", "\uFFFD", "\xFF",   "\xC3",   "\xE2\x96", "\xED\xA0\x80",
      "\xF5", "\xC0\x80", "<s>",         "</s>",   "<unk>",  "<0x41>", "12",       ".",
      "ein",  "the",      "\r",          "\u2047"};
  RandomStream random({.seed = seed});
  std::vector<std::string> lines(count);
  for (std::string& line : lines) {
    for (uint32_t n = random.NextBelow(24); n > 0; --n) {
      line += kParts[random.NextBelow(static_cast<uint32_t>(kParts.size()))];
    }
  }
  return lines;
}

TEST_CASE("spm_encode and spm_decode agree on real and on unlikely text") {
  if (!HaveSentencePiece()) return;
  const std::optional<fs::path> folder = testing::SharedPath("data/en-de/tatoeba");
  if (!folder) return;
  std::vector<std::string> lines = ReadLines(*folder / "train.de", 6000);
  for (const std::string& line : ReadLines(*folder / "train.en", 6000)) lines.push_back(line);
  for (const bool byte_fallback : {false, true}) {
    WordCounter counter(2);
    counter.Add(std::span(lines).subspan(2000));
    const BpeModel model =
        LearnBpe(counter,
                 {.vocab_size = 3000, .character_coverage = 0.999, .byte_fallback = byte_fallback})
            .value();
    std::vector<std::string> all = lines;
    for (const std::string& line : RandomLines(5, 1000)) all.push_back(line);
    CHECK(CountDifferences(model, all) == 0);
  }
}

TEST_CASE("spm_encode and spm_decode agree on user-defined pieces wherever they stand") {
  if (!HaveSentencePiece()) return;
  const std::optional<fs::path> folder = testing::SharedPath("data/en-de/tatoeba");
  if (!folder) return;
  const std::vector<std::string> lines = ReadLines(*folder / "train.en", 4000);
  const std::vector<std::string> pieces = {"<medical>", "<med", "__2x__", "the", "ä.", "▁ein"};
  for (const bool byte_fallback : {false, true}) {
    WordCounter words(2);
    words.Add(lines);
    BpeVocabulary vocabulary =
        LearnBpe(words, {.vocab_size = 1000,
                         .byte_fallback = byte_fallback,
                         .user_defined = {"<medical>", "<med", "__2x__", "the"}})
            .value()
            .vocabulary();
    // What learning refuses, others' models may have.
    vocabulary.pieces.push_back({"ä.", BpePieceType::kUserDefined});
    vocabulary.pieces.push_back({"▁ein", BpePieceType::kUserDefined});
    const BpeModel model = BpeModel::FromVocabulary(vocabulary).value();
    std::vector<std::string> all = RandomLines(5, 500);
    RandomStream random({.seed = 8});
    for (const std::string& line : lines) {
      const std::string& piece = pieces[random.NextBelow(static_cast<uint32_t>(pieces.size()))];
      all.push_back(piece + " " + line);
      all.push_back(std::string(line).insert(random.NextBelow(static_cast<uint32_t>(line.size())),
                                             piece + piece));
    }
    CHECK(CountDifferences(model, all) == 0);
  }
}

TEST_CASE("spm_encode agrees on models nobody would train") {
  if (!HaveSentencePiece()) return;
  // Random pieces over a small alphabet with scores that tie, characters missing, and pieces that
  // reach over the beginning of a word.
  for (uint64_t seed = 0; seed < 12; ++seed) {
    RandomStream random({.seed = seed});
    std::set<std::string> texts;
    while (texts.size() < 40) {
      std::string text;
      for (uint32_t n = 1 + random.NextBelow(4); n > 0; --n) {
        const bool begins_word = random.NextBelow(6) == 0 && (text.empty() || seed % 2 == 0);
        text += begins_word ? "▁" : std::string(1, "abcen"[random.NextBelow(5)]);
      }
      texts.insert(text);
    }
    BpeVocabulary vocabulary;
    vocabulary.pieces = {{"<unk>", BpePieceType::kUnknown},
                         {"<s>", BpePieceType::kControl},
                         {"</s>", BpePieceType::kControl}};
    for (const std::string& text : texts) {
      vocabulary.pieces.push_back(
          {text, BpePieceType::kNormal, -static_cast<float>(random.NextBelow(25))});
    }
    const BpeModel model = BpeModel::FromVocabulary(vocabulary).value();
    CHECK(CountDifferences(model, RandomLines(seed + 100, 300)) == 0);
  }
}

}  // namespace
}  // namespace dtrain
