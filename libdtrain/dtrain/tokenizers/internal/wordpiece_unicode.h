// wordpiece_unicode.h - the action of BERT's tokenizers for each code point, for one behaviour.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_UNICODE_H_
#define DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_UNICODE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain::internal {

struct CharacterRules {
  bool hugging_face = false;
  bool lower_case = true;
  bool strip_accents = true;
  bool split_cjk = true;
};

enum class CharacterKind : uint8_t {
  kLetter,       // part of a word; becomes `target`
  kPunctuation,  // a word by itself; becomes `target`
  kCjk,          // a word by itself that also acts as a space; becomes `target`
  kSpace,
  kDrop,
  kHangul,   // a syllable that is decomposed
  kSpecial,  // `target` is the index of a SpecialCharacter
};

// The treatment of a code point.
class CharacterAction {
 public:
  constexpr CharacterAction() = default;
  constexpr CharacterAction(CharacterKind kind, uint32_t target, bool cased, bool case_ignorable)
      : bits_(target | static_cast<uint32_t>(kind) << 21 | (cased ? kCased : 0) |
              (case_ignorable ? kCaseIgnorable : 0)) {}

  // As the target: the code point is not changed. So pages of such characters are equal.
  static constexpr uint32_t kItself = 0;

  CharacterKind kind() const { return static_cast<CharacterKind>(bits_ >> 21 & 7u); }
  uint32_t target() const { return bits_ & 0x1FFFFFu; }
  uint32_t TargetOf(uint32_t code_point) const {
    return target() == kItself ? code_point : target();
  }
  bool is_cased() const { return (bits_ & kCased) != 0; }
  bool is_case_ignorable() const { return (bits_ & kCaseIgnorable) != 0; }
  bool operator==(const CharacterAction&) const = default;

 private:
  static constexpr uint32_t kCased = 1u << 24;
  static constexpr uint32_t kCaseIgnorable = 1u << 25;
  uint32_t bits_ = 0;
};

struct SpecialCharacter {
  enum class Type : uint8_t {
    kExpansion,    // becomes `code_points`
    kSigma,        // U+03A3, whose lower case depends on its neighbours
    kCombining,    // code_points[0], which may be reordered with others by combining_class
    kDropStarter,  // is removed, but marks are not reordered across it
  };
  Type type = Type::kExpansion;
  uint8_t count = 0;
  uint8_t combining_class = 0;
  std::array<uint32_t, 4> code_points{};
};

// A table of all code points, in pages that are shared if they are equal.
class CharacterTable {
 public:
  explicit CharacterTable(const CharacterRules& rules);

  // `code_point` must be at most 0x10FFFF.
  CharacterAction Action(uint32_t code_point) const {
    return actions_[static_cast<size_t>(pages_[code_point >> kPageBits]) << kPageBits |
                    (code_point & (kPageSize - 1))];
  }
  const SpecialCharacter& special(CharacterAction action) const {
    return specials_[action.target()];
  }

 private:
  class Builder;

  static constexpr uint32_t kPageBits = 7;
  static constexpr uint32_t kPageSize = 1u << kPageBits;

  std::vector<uint16_t> pages_;
  std::vector<CharacterAction> actions_;
  std::vector<SpecialCharacter> specials_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_UNICODE_H_
