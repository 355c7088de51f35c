// graphemes.cc - the rules of Unicode Standard Annex 29 as a walk from one character to the next.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/graphemes.h"

#include <algorithm>
#include <vector>

#include "dtrain/base/utf8.h"

namespace dtrain::internal {
namespace {

#include "dtrain/data/internal/grapheme_classes.inc"

using enum GraphemeClass;

constexpr uint32_t kNumCodePoints = 0x110000;
constexpr uint32_t kFirstSyllable = 0xAC00;
constexpr uint32_t kLastSyllable = 0xD7A3;
constexpr uint32_t kFinals = 28;  // syllables with one beginning and vowel

std::vector<GraphemeClass> MakeGraphemeClasses() {
  std::vector<GraphemeClass> classes(kNumCodePoints, kOther);
  for (const auto& range : kGraphemeRanges) {
    std::fill(classes.begin() + range[0], classes.begin() + range[1] + 1,
              static_cast<GraphemeClass>(range[2]));
  }
  for (uint32_t c = kFirstSyllable; c <= kLastSyllable; ++c) {
    classes[c] = (c - kFirstSyllable) % kFinals == 0 ? kHangulLv : kHangulLvt;
  }
  return classes;
}

bool IsControl(GraphemeClass kind) {
  return kind == kControl || kind == kCarriageReturn || kind == kLineFeed;
}

bool Extends(GraphemeClass kind) {
  return kind >= kLinker && kind <= kSpacingMark;  // includes the joiner
}

bool JoinsHangul(GraphemeClass before, GraphemeClass next) {
  switch (before) {
    case kHangulL:
      return next == kHangulL || next == kHangulV || next == kHangulLv || next == kHangulLvt;
    case kHangulLv:
    case kHangulV:
      return next == kHangulV || next == kHangulT;
    case kHangulLvt:
    case kHangulT:
      return next == kHangulT;
    default:
      return false;
  }
}

// What of a cluster matters to the next character, besides its last character.
struct ClusterWalk {
  GraphemeClass before;
  // A pictograph and what extends it, up to a joiner that is the last character (rule GB11).
  bool has_pictograph = false;
  // A consonant, linkers and what extends it, up to here (rule GB9c).
  bool has_consonant = false;
  bool has_linker = false;
  size_t num_regionals = 0;  // at the end

  explicit ClusterWalk(GraphemeClass first) : before(first) { Note(first); }

  void Note(GraphemeClass kind) {
    const bool extends_it =
        kind == kJoiner || kind == kLinker || kind == kIndicExtend || kind == kExtend;
    has_pictograph = kind == kPictographic || (has_pictograph && extends_it && before != kJoiner);
    if (kind == kConsonant) {
      has_consonant = true;
      has_linker = false;
    } else if (kind == kLinker) {
      has_linker = has_consonant;
    } else if (kind != kIndicExtend && kind != kJoiner) {
      has_consonant = has_linker = false;
    }
    num_regionals = kind == kRegional ? num_regionals + 1 : 0;
    before = kind;
  }

  bool Joins(GraphemeClass next) const {
    if (before == kCarriageReturn && next == kLineFeed) return true;   // GB3
    if (IsControl(before) || IsControl(next)) return false;            // GB4, GB5
    if (JoinsHangul(before, next)) return true;                        // GB6 to GB8
    if (Extends(next) || before == kPrepend) return true;              // GB9, GB9a, GB9b
    if (has_linker && next == kConsonant) return true;                 // GB9c
    if (has_pictograph && before == kJoiner && next == kPictographic)  // GB11
      return true;
    return next == kRegional && num_regionals % 2 == 1;  // GB12, GB13
  }
};

}  // namespace

GraphemeClass GraphemeClassOf(uint32_t code_point) {
  static const std::vector<GraphemeClass> classes = MakeGraphemeClasses();
  return code_point < kNumCodePoints ? classes[code_point] : kOther;
}

size_t NextGrapheme(std::string_view text) {
  size_t size = 0;
  ClusterWalk walk(GraphemeClassOf(DecodeUtf8(text, size)));
  for (size_t end = size; end < text.size(); end += size) {
    const GraphemeClass next = GraphemeClassOf(DecodeUtf8(text.substr(end), size));
    if (!walk.Joins(next)) return end;
    walk.Note(next);
  }
  return text.size();
}

}  // namespace dtrain::internal
