// wordpiece_words.cc - applies each character's action, and the few rules that look at neighbours.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/wordpiece_words.h"

#include <algorithm>

#include "dtrain/tokenizers/internal/bpe_text.h"

namespace dtrain::internal {
namespace {

constexpr uint32_t kSmallSigma = 0x3C3;
constexpr uint32_t kFinalSigma = 0x3C2;

template <bool kWithSources>
class WordSplitter {
 public:
  WordSplitter(const CharacterTable& table, std::string_view text, WordList& out)
      : table_(table), text_(text), out_(out) {
    out.text.clear();
    out.words.clear();
    out.pending.clear();
    out.sources.clear();
    out.pending_sources.clear();
  }

  void Run() {
    for (size_t at = 0; at < text_.size();) {
      size_t size;
      const uint32_t c = DecodeUtf8(text_.substr(at), size);
      if constexpr (kWithSources) {
        source_ = {static_cast<int32_t>(at), static_cast<int32_t>(at + size)};
      }
      if (c != kInvalidCodePoint) Take(c, at, size);
      at += size;
    }
    EndWord();
  }

 private:
  void Take(uint32_t c, size_t at, size_t size) {
    const CharacterAction action = table_.Action(c);
    switch (action.kind()) {
      case CharacterKind::kLetter:
        return AddLetter(action.TargetOf(c));
      case CharacterKind::kPunctuation:
      case CharacterKind::kCjk:
        EndWord();
        AddLetter(action.TargetOf(c));
        return EndWord();
      case CharacterKind::kSpace:
        return EndWord();
      case CharacterKind::kDrop:
        return;
      case CharacterKind::kHangul:
        return AddHangul(c);
      case CharacterKind::kSpecial:
        return AddSpecial(table_.special(action), at, size);
    }
  }

  void AddLetter(uint32_t c) {
    if (!out_.pending.empty()) FlushPending();
    AppendUtf8(c, out_.text);
    if constexpr (kWithSources) out_.sources.push_back(source_);
    ++num_chars_;
  }

  void EndWord() {
    if (!out_.pending.empty()) FlushPending();
    if (num_chars_ == 0) return;
    out_.words.push_back({begin_, out_.text.size(), num_chars_});
    begin_ = out_.text.size();
    num_chars_ = 0;
  }

  // The Unicode Standard, section 3.12: the canonical decomposition of syllables.
  void AddHangul(uint32_t c) {
    const uint32_t syllable = c - 0xAC00;
    AddLetter(0x1100 + syllable / (21 * 28));
    AddLetter(0x1161 + syllable % (21 * 28) / 28);
    if (syllable % 28 != 0) AddLetter(0x11A7 + syllable % 28);
  }

  void AddSpecial(const SpecialCharacter& special, size_t at, size_t size) {
    switch (special.type) {
      case SpecialCharacter::Type::kExpansion:
        // The parts are already normalised, so processing them again changes nothing.
        for (uint8_t i = 0; i < special.count; ++i) TakePart(special.code_points[i]);
        return;
      case SpecialCharacter::Type::kSigma:
        return AddLetter(IsFinalSigma(at, at + size) ? kFinalSigma : kSmallSigma);
      case SpecialCharacter::Type::kCombining:
        return AddCombining({special.code_points[0], special.combining_class});
      case SpecialCharacter::Type::kDropStarter:
        return FlushPending();
    }
  }

  void TakePart(uint32_t c) {
    const CharacterAction action = table_.Action(c);
    if (action.kind() == CharacterKind::kSpecial &&
        table_.special(action).type == SpecialCharacter::Type::kCombining) {
      return AddSpecial(table_.special(action), 0, 0);
    }
    if (action.kind() != CharacterKind::kPunctuation) return AddLetter(c);
    EndWord();
    AddLetter(c);
    EndWord();
  }

  // The canonical order: a stable sort by combining class, between characters of class 0.
  void AddCombining(WordList::Combining mark) {
    const auto place =
        std::upper_bound(out_.pending.begin(), out_.pending.end(), mark,
                         [](const WordList::Combining& a, const WordList::Combining& b) {
                           return a.combining_class < b.combining_class;
                         });
    out_.pending.insert(place, mark);
    if constexpr (kWithSources) out_.pending_sources.push_back(source_);
  }
  void FlushPending() {
    for (const WordList::Combining& mark : out_.pending) AppendUtf8(mark.code_point, out_.text);
    num_chars_ += out_.pending.size();
    out_.pending.clear();
    if constexpr (kWithSources) {
      out_.sources.insert(out_.sources.end(), out_.pending_sources.begin(),
                          out_.pending_sources.end());
      out_.pending_sources.clear();
    }
  }

  // The Unicode Standard, table 3-17, Final_Sigma: after a cased letter and not before one,
  // ignoring case-ignorable characters between them.
  bool IsFinalSigma(size_t begin, size_t end) const {
    bool after_cased = false;
    while (begin > 0) {
      size_t size;
      const uint32_t c = DecodeBackwards(begin, size);
      begin -= size;
      if (IsTransparent(c)) continue;
      after_cased = table_.Action(c).is_cased();
      break;
    }
    if (!after_cased) return false;
    while (end < text_.size()) {
      size_t size;
      const uint32_t c = DecodeUtf8(text_.substr(end), size);
      end += size;
      if (!IsTransparent(c)) return !table_.Action(c).is_cased();
    }
    return true;
  }

  bool IsTransparent(uint32_t c) const {
    if (c == kInvalidCodePoint) return true;
    const CharacterAction action = table_.Action(c);
    return action.kind() == CharacterKind::kDrop || action.is_case_ignorable();
  }

  // The code point that ends at `end`.
  uint32_t DecodeBackwards(size_t end, size_t& size) const {
    for (size_t n = 1; n <= 4 && n <= end; ++n) {
      const uint32_t c = DecodeUtf8(text_.substr(end - n, n), size);
      if (c != kInvalidCodePoint && size == n) return c;
    }
    size = 1;
    return kInvalidCodePoint;
  }

  const CharacterTable& table_;
  const std::string_view text_;
  WordList& out_;
  size_t begin_ = 0;
  size_t num_chars_ = 0;
  TokenSpan source_;  // the character that is being processed
};

}  // namespace

void SplitWords(const CharacterTable& table, std::string_view text, WordList& out) {
  WordSplitter<false>(table, text, out).Run();
}

void SplitWordsWithSources(const CharacterTable& table, std::string_view text, WordList& out) {
  WordSplitter<true>(table, text, out).Run();
}

}  // namespace dtrain::internal
