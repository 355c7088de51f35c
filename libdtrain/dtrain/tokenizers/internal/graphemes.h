// graphemes.h - where a grapheme cluster ends: what a reader takes for one character.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_GRAPHEMES_H_
#define DTRAIN_TOKENIZERS_INTERNAL_GRAPHEMES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dtrain::internal {

// The properties of a character that matter, of Unicode Standard Annex 29. Numbers are those of the
// generated table.
enum class GraphemeClass : uint8_t {
  kOther,
  kControl,
  kLinker,        // joins two consonants of an Indic script, and extends the cluster before it
  kJoiner,        // U+200D
  kIndicExtend,   // extends, and may stand between a linker and a consonant
  kExtend,        // extends
  kSpacingMark,   // extends
  kPrepend,       // begins the cluster of the character after it
  kConsonant,     // of an Indic script
  kPictographic,  // joins another one after U+200D
  kRegional,      // two are a flag
  kHangulL,
  kHangulV,
  kHangulT,
  kCarriageReturn,
  kLineFeed,
  kHangulLv,   // a syllable without a final consonant
  kHangulLvt,  // and with one
};

GraphemeClass GraphemeClassOf(uint32_t code_point);

// How many bytes at the front of `text` (valid UTF-8, not empty) are its first extended grapheme
// cluster. Time is linear in their number.
size_t NextGrapheme(std::string_view text);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_GRAPHEMES_H_
