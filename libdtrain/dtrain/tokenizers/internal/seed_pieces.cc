// seed_pieces.cc - sorts the ends of all words, so that equal beginnings lie side by side.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/seed_pieces.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/internal/script.h"

namespace dtrain::internal {
namespace {

// The end of a word from one of its characters on.
struct Suffix {
  uint64_t key;   // its first characters, of 21 bits each; 0 behind its end
  uint32_t at;    // in the characters of all words
  uint32_t word;  // index
};

// A part of a word, and how often it occurs.
struct Part {
  uint32_t at;
  int32_t length;
  double score;
};

class PartFinder {
 public:
  PartFinder(const UnigramWords& words, const SeedOptions& options)
      : words_(words), options_(options), length_(static_cast<size_t>(options.max_piece_length)) {
    characters_.reserve(words.text.size() + words.words.size());
    for (const UnigramWords::Word& word : words.words) {
      const std::string_view text = words.TextOf(word);
      for (size_t i = 0, size = 0; i < text.size(); i += size) {
        characters_.push_back(DecodeUtf8(text.substr(i), size));
      }
      characters_.push_back(kEnd);
    }
  }

  bool is_too_large() const { return characters_.size() > std::numeric_limits<uint32_t>::max(); }

  // The parts with the highest scores; of equal ones those that sort first.
  std::vector<Part> Find() {
    SortSuffixes();
    FindEqualBeginnings();
    std::vector<size_t> order(parts_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto is_before = [&](size_t a, size_t b) {
      return parts_[a].score != parts_[b].score ? parts_[a].score > parts_[b].score : a < b;
    };
    const size_t kept = std::min(order.size(), options_.limit);
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                     is_before);
    order.resize(kept);
    std::sort(order.begin(), order.end(), is_before);
    std::vector<Part> best;
    best.reserve(kept);
    for (const size_t i : order) best.push_back(parts_[i]);
    return best;
  }

  std::string TextOf(const Part& part) const {
    std::string text;
    for (int32_t i = 0; i < part.length; ++i) {
      AppendUtf8(characters_[part.at + static_cast<size_t>(i)], text);
    }
    return text;
  }

 private:
  static constexpr uint32_t kEnd = 0;  // behind each word; no word has a NUL
  static constexpr int kBits = 21;
  static constexpr size_t kInKey = 3;
  static constexpr uint64_t kLastInKey = (uint64_t{1} << kBits) - 1;

  uint64_t KeyAt(size_t at) const {
    uint64_t key = 0;
    bool has_ended = false;
    for (size_t i = 0; i < kInKey; ++i) {
      const uint32_t c = has_ended ? kEnd : characters_[at + i];
      has_ended = c == kEnd;
      key = key << kBits | c;
    }
    return key;
  }

  // Compares the first length_ characters, which is as long as a piece may be. So the time of a
  // comparison is bounded, whatever the text.
  bool IsBefore(const Suffix& a, const Suffix& b) const {
    if (a.key != b.key) return a.key < b.key;
    if ((a.key & kLastInKey) == kEnd) return false;
    for (size_t i = kInKey; i < length_; ++i) {
      const uint32_t left = characters_[a.at + i];
      const uint32_t right = characters_[b.at + i];
      if (left != right) return left < right;
      if (left == kEnd) return false;
    }
    return false;
  }

  void SortSuffixes() {
    suffixes_.reserve(characters_.size() - words_.words.size());
    uint32_t word = 0;
    for (size_t at = 0; at < characters_.size(); ++at) {
      if (characters_[at] == kEnd) {
        ++word;
      } else {
        suffixes_.push_back({KeyAt(at), static_cast<uint32_t>(at), word});
      }
    }
    std::sort(suffixes_.begin(), suffixes_.end(),
              [&](const Suffix& a, const Suffix& b) { return IsBefore(a, b); });
  }

  // Number of characters that both begin with, up to length_.
  size_t Common(const Suffix& a, const Suffix& b) const {
    size_t i = 0;
    while (i < length_ && characters_[a.at + i] == characters_[b.at + i] &&
           characters_[a.at + i] != kEnd) {
      ++i;
    }
    return i;
  }
  size_t LengthOf(const Suffix& suffix) const {
    size_t i = 0;
    while (i < length_ && characters_[suffix.at + i] != kEnd) ++i;
    return i;
  }

  // Walks through the sorted suffixes with a stack of the beginnings that the last one shares with
  // suffixes before it, the shortest first.
  void FindEqualBeginnings() {
    struct Beginning {
      size_t length;
      int64_t count;
    };
    std::vector<Beginning> open;
    for (size_t i = 0; i <= suffixes_.size(); ++i) {
      const bool is_inner = i > 0 && i < suffixes_.size();
      const size_t common = is_inner ? Common(suffixes_[i - 1], suffixes_[i]) : 0;
      int64_t closed = 0;
      while (!open.empty() && open.back().length > common) {
        closed += open.back().count;
        Take(suffixes_[i - 1], open.back().length, closed);
        open.pop_back();
      }
      if (closed > 0 && common > 0) Open(open, common, closed);
      if (i == suffixes_.size()) break;
      Open(open, LengthOf(suffixes_[i]), words_.words[suffixes_[i].word].count);
    }
  }

  template <typename Beginnings>
  static void Open(Beginnings& open, size_t length, int64_t count) {
    if (open.empty() || open.back().length < length) open.push_back({length, 0});
    open.back().count += count;
  }

  void Take(const Suffix& suffix, size_t length, int64_t count) {
    if (length < 2 || count < 2 || !IsValid(suffix.at, length)) return;
    parts_.push_back({suffix.at, static_cast<int32_t>(length),
                      static_cast<double>(count) * static_cast<double>(length)});
  }

  bool IsValid(size_t at, size_t length) const {
    uint16_t script = kAnyScript;
    for (size_t i = at; i < at + length; ++i) {
      const uint32_t c = characters_[i];
      if (options_.split_digits && IsDigit(c)) return false;
      if (c == ' ' || !options_.split_by_script) continue;
      const uint16_t other = ScriptOf(c);
      if (other == kAnyScript) continue;
      if (script != kAnyScript && script != other) return false;
      script = other;
    }
    return true;
  }

  const UnigramWords& words_;
  SeedOptions options_;
  size_t length_;
  std::vector<uint32_t> characters_;
  std::vector<Suffix> suffixes_;
  std::vector<Part> parts_;
};

}  // namespace

StatusOr<std::vector<SeedPiece>> SeedPieces(const UnigramWords& words, const SeedOptions& options) {
  PartFinder finder(words, options);
  if (finder.is_too_large()) {
    return DataError(
        "the text has too many different words to learn a Unigram vocabulary from: 4 billion "
        "characters; learn from a part of it (--sentences)");
  }
  std::vector<SeedPiece> pieces;
  for (const auto& [text, count] : words.characters) {
    pieces.push_back({text, static_cast<double>(std::max<int64_t>(count, 1))});
  }
  for (const Part& part : finder.Find()) pieces.push_back({finder.TextOf(part), part.score});
  return pieces;
}

}  // namespace dtrain::internal
