// wordpiece_unicode.cc - unfolds the generated ranges and composes them into one action each.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/internal/wordpiece_unicode.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "dtrain/base/check.h"

namespace dtrain::internal {
namespace {

#include "dtrain/data/internal/wordpiece_tables.inc"

constexpr uint32_t kCodePoints = 0x110000;

// Flags of kFlagRanges, as the generator has them: six of Google, six of Hugging Face, two of both.
constexpr uint32_t kDropFlag = 1u << 0;
constexpr uint32_t kSpaceFlag = 1u << 1;
constexpr uint32_t kCjkFlag = 1u << 2;
constexpr uint32_t kPunctuationFlag = 1u << 3;
constexpr uint32_t kMarkFlag = 1u << 4;
constexpr uint32_t kMarkStarterFlag = 1u << 5;
constexpr int kHuggingFaceShift = 6;
constexpr uint32_t kCasedFlag = 1u << 12;
constexpr uint32_t kCaseIgnorableFlag = 1u << 13;

constexpr uint32_t kCapitalSigma = 0x3A3;
constexpr uint32_t kFirstHangul = 0xAC00;
constexpr uint32_t kLastHangul = 0xD7A3;

using Sequence = std::u32string;

// From code points to sequences of them; others stay.
class Mapping {
 public:
  void AddRuns(std::span<const int32_t> numbers) {
    struct Stride {
      int32_t source, target;
    };
    static constexpr Stride kStrides[] = {{1, 0}, {1, 1}, {2, 2}, {1, 2}, {2, 0}};
    int32_t first = 0;
    for (size_t i = 0; i + 2 < numbers.size(); i += 3) {
      first += numbers[i];
      const Stride& stride = kStrides[numbers[i + 1] % 8];
      for (int32_t k = 0; k < numbers[i + 1] / 8; ++k) {
        targets_[static_cast<uint32_t>(first + k * stride.source)] =
            Sequence(1, static_cast<char32_t>(first + numbers[i + 2] + k * stride.target));
      }
    }
  }
  void AddExpansions(std::span<const int32_t> numbers, bool hugging_face) {
    for (size_t i = 0; i + 2 < numbers.size(); i += 3 + static_cast<size_t>(numbers[i + 2])) {
      if (numbers[i + 1] == (hugging_face ? 1 : 2)) continue;
      const std::span<const int32_t> targets =
          numbers.subspan(i + 3, static_cast<size_t>(numbers[i + 2]));
      targets_[static_cast<uint32_t>(numbers[i])] = Sequence(targets.begin(), targets.end());
    }
  }
  void AppendTo(Sequence& out, uint32_t code_point) const {
    const auto found = targets_.find(code_point);
    if (found == targets_.end()) {
      out.push_back(code_point);
    } else {
      out += found->second;
    }
  }
  template <typename Body>
  void ForEachSource(const Body& body) const {
    for (const auto& entry : targets_) body(entry.first);
  }

 private:
  std::unordered_map<uint32_t, Sequence> targets_;
};

struct Properties {
  std::vector<uint32_t> flags;  // [kCodePoints], bits above of the behaviour and the shared ones
  std::unordered_map<uint32_t, uint8_t> combining_classes;
  Mapping lower;
  Mapping strip;
};

Properties ReadTables(const CharacterRules& rules) {
  Properties p;
  p.flags.resize(kCodePoints);
  size_t at = 0;
  for (size_t i = 0; i < std::size(kFlagRanges); i += 3) {
    at += static_cast<size_t>(kFlagRanges[i]);
    const auto size = static_cast<size_t>(kFlagRanges[i + 1]);
    const auto all = static_cast<uint32_t>(kFlagRanges[i + 2]);
    const uint32_t own = (rules.hugging_face ? all >> kHuggingFaceShift : all) & 63u;
    DT_CHECK_LE(at + size, p.flags.size());
    std::fill_n(p.flags.begin() + static_cast<std::ptrdiff_t>(at), size,
                own | (all & (kCasedFlag | kCaseIgnorableFlag)));
    at += size;
  }
  p.lower.AddRuns(kLower);
  p.strip.AddRuns(kStrip);
  if (rules.hugging_face) {
    p.lower.AddRuns(kLowerHf);
    p.strip.AddRuns(kStripHf);
  } else {
    p.lower.AddRuns(kLowerGoogle);
    p.strip.AddRuns(kStripGoogle);
  }
  p.lower.AddExpansions(kLowerExpansions, rules.hugging_face);
  p.strip.AddExpansions(kStripExpansions, rules.hugging_face);
  for (size_t i = 0; i < std::size(kCombiningClasses); i += 4) {
    for (int32_t k = 0; k < kCombiningClasses[i + 1]; ++k) {
      p.combining_classes[static_cast<uint32_t>(kCombiningClasses[i] + k)] =
          static_cast<uint8_t>(kCombiningClasses[i + (rules.hugging_face ? 3 : 2)]);
    }
  }
  return p;
}

// The code points a character becomes, those that are dropped as marks left out.
Sequence Normalized(const CharacterRules& rules, const Properties& p, uint32_t code_point) {
  Sequence out(1, code_point);
  const auto apply = [&](const Mapping& mapping) {
    Sequence in;
    in.swap(out);
    for (const char32_t c : in) mapping.AppendTo(out, c);
  };
  // Google lowers first: that leaves a dot over the i of U+0130, which stripping then takes.
  if (rules.lower_case && !rules.hugging_face) apply(p.lower);
  if (rules.strip_accents) {
    apply(p.strip);
    std::erase_if(out, [&](char32_t c) { return (p.flags[c] & kMarkFlag) != 0; });
  }
  if (rules.lower_case && rules.hugging_face) apply(p.lower);
  return out;
}

class ActionMaker {
 public:
  ActionMaker(const CharacterRules& rules, std::vector<SpecialCharacter>& specials)
      : rules_(rules), properties_(ReadTables(rules)), specials_(specials) {}

  std::vector<CharacterAction> MakeAll() {
    std::vector<CharacterAction> actions(kCodePoints);
    const auto make = [&](uint32_t c) { actions[c] = Make(c); };
    for (uint32_t c = 0; c < kCodePoints; ++c) {
      if (properties_.flags[c] != 0) make(c);
    }
    if (rules_.lower_case) properties_.lower.ForEachSource(make);
    if (rules_.strip_accents) properties_.strip.ForEachSource(make);
    for (const auto& entry : properties_.combining_classes) make(entry.first);
    for (uint32_t c = kFirstHangul; rules_.strip_accents && c <= kLastHangul; ++c) make(c);
    return actions;
  }

 private:
  CharacterAction Make(uint32_t c) {
    const uint32_t flags = properties_.flags[c];
    const auto action = [&](CharacterKind kind, uint32_t target) {
      // Equal actions share pages: what only a capital sigma asks for is kept where one can ask.
      const bool keep = rules_.lower_case && !rules_.hugging_face;
      return CharacterAction(kind, target, keep && (flags & kCasedFlag) != 0,
                             keep && (flags & kCaseIgnorableFlag) != 0);
    };
    const auto special = [&](SpecialCharacter::Type type, const Sequence& out) {
      return action(CharacterKind::kSpecial, AddSpecial(type, out));
    };
    const auto become = [&](CharacterKind kind, uint32_t target) {
      return action(kind, target == c ? CharacterAction::kItself : target);
    };
    if ((flags & kDropFlag) != 0) return action(CharacterKind::kDrop, 0);
    if ((flags & kSpaceFlag) != 0) return action(CharacterKind::kSpace, 0);
    if (rules_.strip_accents && c >= kFirstHangul && c <= kLastHangul) {
      return action(CharacterKind::kHangul, 0);
    }
    if (rules_.lower_case && !rules_.hugging_face && c == kCapitalSigma) {
      return special(SpecialCharacter::Type::kSigma, {});
    }
    const Sequence out = Normalized(rules_, properties_, c);
    if (out.empty()) {
      return (flags & kMarkStarterFlag) != 0 ? special(SpecialCharacter::Type::kDropStarter, {})
                                             : action(CharacterKind::kDrop, 0);
    }
    if (out.size() > 1) return special(SpecialCharacter::Type::kExpansion, out);
    if (rules_.strip_accents && CombiningClass(out[0]) != 0) {
      return special(SpecialCharacter::Type::kCombining, out);
    }
    if (rules_.split_cjk && (flags & kCjkFlag) != 0) return become(CharacterKind::kCjk, out[0]);
    const bool is_punctuation = (properties_.flags[out[0]] & kPunctuationFlag) != 0;
    return become(is_punctuation ? CharacterKind::kPunctuation : CharacterKind::kLetter, out[0]);
  }

  uint8_t CombiningClass(uint32_t c) const {
    const auto found = properties_.combining_classes.find(c);
    return found == properties_.combining_classes.end() ? uint8_t{0} : found->second;
  }

  uint32_t AddSpecial(SpecialCharacter::Type type, const Sequence& out) {
    SpecialCharacter special{.type = type, .count = static_cast<uint8_t>(out.size())};
    DT_CHECK_LE(out.size(), special.code_points.size());
    std::copy(out.begin(), out.end(), special.code_points.begin());
    if (type == SpecialCharacter::Type::kCombining) {
      special.combining_class = CombiningClass(out[0]);
    }
    specials_.push_back(special);
    return static_cast<uint32_t>(specials_.size() - 1);
  }

  const CharacterRules& rules_;
  const Properties properties_;
  std::vector<SpecialCharacter>& specials_;
};

}  // namespace

CharacterTable::CharacterTable(const CharacterRules& rules) {
  const std::vector<CharacterAction> all = ActionMaker(rules, specials_).MakeAll();
  std::unordered_map<std::string_view, uint16_t> known;
  for (uint32_t first = 0; first < kCodePoints; first += kPageSize) {
    const std::string_view page(reinterpret_cast<const char*>(&all[first]),
                                kPageSize * sizeof(CharacterAction));
    const auto [entry, is_new] = known.try_emplace(page, static_cast<uint16_t>(known.size()));
    if (is_new) actions_.insert(actions_.end(), &all[first], &all[first] + kPageSize);
    pages_.push_back(entry->second);
  }
}

}  // namespace dtrain::internal
