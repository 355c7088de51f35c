// wordpiece_unicode.cc - expands the generated ranges and combines them into actions.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/wordpiece_unicode.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>
#include <unordered_map>

#include "dtrain/base/check.h"

namespace dtrain::internal {
namespace {

#include "dtrain/data/internal/wordpiece_tables.inc"

constexpr uint32_t kCodePoints = 0x110000;

// The flags of kFlagRanges, as the generator defines them: six for Google, six for Hugging Face,
// two for both.
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

// The code points that one code point becomes, at most four.
struct Sequence {
  uint8_t count = 0;
  std::array<uint32_t, 4> code_points{};

  void Append(uint32_t code_point) {
    DT_CHECK_LT(size_t{count}, code_points.size());
    code_points[count++] = code_point;
  }
};

// Maps code points to sequences. Code points without an entry stay unchanged.
class Mapping {
 public:
  struct Entry {
    uint32_t source;
    Sequence targets;
  };

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
        Entry& entry = Add(first + k * stride.source);
        entry.targets.Append(static_cast<uint32_t>(first + numbers[i + 2] + k * stride.target));
      }
    }
  }
  void AddExpansions(std::span<const int32_t> numbers, bool hugging_face) {
    for (size_t i = 0; i + 2 < numbers.size(); i += 3 + static_cast<size_t>(numbers[i + 2])) {
      if (numbers[i + 1] == (hugging_face ? 1 : 2)) continue;
      Entry& entry = Add(numbers[i]);
      for (const int32_t target : numbers.subspan(i + 3, static_cast<size_t>(numbers[i + 2]))) {
        entry.targets.Append(static_cast<uint32_t>(target));
      }
    }
  }
  // Call it after the last Add and before the first Apply.
  void Sort() {
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.source < b.source; });
  }
  Sequence Apply(const Sequence& in) const {
    Sequence out;
    for (uint8_t i = 0; i < in.count; ++i) {
      const uint32_t c = in.code_points[i];
      const auto found =
          std::lower_bound(entries_.begin(), entries_.end(), c,
                           [](const Entry& entry, uint32_t key) { return entry.source < key; });
      if (found == entries_.end() || found->source != c) {
        out.Append(c);
      } else {
        for (uint8_t k = 0; k < found->targets.count; ++k)
          out.Append(found->targets.code_points[k]);
      }
    }
    return out;
  }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  Entry& Add(int32_t source) {
    return entries_.emplace_back(Entry{static_cast<uint32_t>(source), {}});
  }

  std::vector<Entry> entries_;
};

struct FlagRange {
  uint32_t first;
  uint32_t end;
  uint32_t flags;  // those of one behaviour and those of both
};

struct Properties {
  std::vector<FlagRange> ranges;
  std::unordered_map<uint32_t, uint8_t> combining_classes;
  Mapping lower;
  Mapping strip;

  uint32_t FlagsOf(uint32_t c) const {
    const auto after =
        std::upper_bound(ranges.begin(), ranges.end(), c,
                         [](uint32_t key, const FlagRange& range) { return key < range.first; });
    return after == ranges.begin() || (after - 1)->end <= c ? 0 : (after - 1)->flags;
  }
};

Properties ReadTables(const CharacterRules& rules) {
  Properties p;
  uint32_t at = 0;
  for (size_t i = 0; i < std::size(kFlagRanges); i += 3) {
    const uint32_t first = at + static_cast<uint32_t>(kFlagRanges[i]);
    at = first + static_cast<uint32_t>(kFlagRanges[i + 1]);
    const auto all = static_cast<uint32_t>(kFlagRanges[i + 2]);
    const uint32_t own = (rules.hugging_face ? all >> kHuggingFaceShift : all) & 63u;
    p.ranges.push_back({first, at, own | (all & (kCasedFlag | kCaseIgnorableFlag))});
  }
  DT_CHECK_LE(at, kCodePoints);
  p.lower.AddRuns(kLower);
  p.strip.AddRuns(kStrip);
  p.lower.AddRuns(rules.hugging_face ? std::span<const int32_t>(kLowerHf) : kLowerGoogle);
  p.strip.AddRuns(rules.hugging_face ? std::span<const int32_t>(kStripHf) : kStripGoogle);
  p.lower.AddExpansions(kLowerExpansions, rules.hugging_face);
  p.strip.AddExpansions(kStripExpansions, rules.hugging_face);
  p.lower.Sort();
  p.strip.Sort();
  for (size_t i = 0; i < std::size(kCombiningClasses); i += 4) {
    for (int32_t k = 0; k < kCombiningClasses[i + 1]; ++k) {
      p.combining_classes[static_cast<uint32_t>(kCombiningClasses[i] + k)] =
          static_cast<uint8_t>(kCombiningClasses[i + (rules.hugging_face ? 3 : 2)]);
    }
  }
  return p;
}

class ActionMaker {
 public:
  ActionMaker(const CharacterRules& rules, std::vector<SpecialCharacter>& specials)
      : rules_(rules), properties_(ReadTables(rules)), specials_(specials) {}

  // Calls fill(first, end, action) for ranges. Later calls replace earlier ones. Code points in no
  // range stay unchanged.
  template <typename Fill>
  void MakeAll(const Fill& fill) {
    const auto make = [&](uint32_t c) { fill(c, c + 1, Make(c)); };
    for (const FlagRange& range : properties_.ranges) {
      fill(range.first, range.end, MakeUniform(range.flags));
    }
    if (rules_.lower_case) {
      for (const Mapping::Entry& entry : properties_.lower.entries()) make(entry.source);
    }
    if (rules_.strip_accents) {
      for (const Mapping::Entry& entry : properties_.strip.entries()) make(entry.source);
      for (const auto& entry : properties_.combining_classes) make(entry.first);
      fill(kFirstHangul, kLastHangul + 1, CharacterAction(CharacterKind::kHangul, 0, false, false));
    }
  }

 private:
  // The action of every character that has these flags and no mapping.
  CharacterAction MakeUniform(uint32_t flags) {
    if (rules_.strip_accents && (flags & kMarkFlag) != 0) return MakeFor(flags, {});
    return MakeFor(flags, {1, {CharacterAction::kItself}});
  }

  CharacterAction Make(uint32_t c) {
    const uint32_t flags = properties_.FlagsOf(c);
    if (rules_.lower_case && !rules_.hugging_face && c == kCapitalSigma) {
      return Action(flags, CharacterKind::kSpecial, AddSpecial(SpecialCharacter::Type::kSigma, {}));
    }
    return MakeFor(flags, Normalized(c));
  }

  // The code points a character becomes, without marks that are dropped.
  Sequence Normalized(uint32_t c) const {
    Sequence out{1, {c}};
    // Google converts to lower case first. U+0130 then leaves a dot over the i, which is stripped.
    if (rules_.lower_case && !rules_.hugging_face) out = properties_.lower.Apply(out);
    if (rules_.strip_accents) {
      const Sequence decomposed = properties_.strip.Apply(out);
      out = {};
      for (uint8_t i = 0; i < decomposed.count; ++i) {
        const uint32_t part = decomposed.code_points[i];
        if ((properties_.FlagsOf(part) & kMarkFlag) == 0) out.Append(part);
      }
    }
    if (rules_.lower_case && rules_.hugging_face) out = properties_.lower.Apply(out);
    return out;
  }

  // `flags` belong to the character itself; `out` is what it becomes.
  CharacterAction MakeFor(uint32_t flags, const Sequence& out) {
    if ((flags & kDropFlag) != 0) return Action(flags, CharacterKind::kDrop, 0);
    if ((flags & kSpaceFlag) != 0) return Action(flags, CharacterKind::kSpace, 0);
    const auto special = [&](SpecialCharacter::Type type) {
      return Action(flags, CharacterKind::kSpecial, AddSpecial(type, out));
    };
    if (out.count == 0) {
      return (flags & kMarkStarterFlag) != 0 ? special(SpecialCharacter::Type::kDropStarter)
                                             : Action(flags, CharacterKind::kDrop, 0);
    }
    if (out.count > 1) return special(SpecialCharacter::Type::kExpansion);
    const uint32_t target = out.code_points[0];
    if (rules_.strip_accents && CombiningClass(target) != 0) {
      return special(SpecialCharacter::Type::kCombining);
    }
    if (rules_.split_cjk && (flags & kCjkFlag) != 0) {
      return Action(flags, CharacterKind::kCjk, target);
    }
    const uint32_t target_flags =
        target == CharacterAction::kItself ? flags : properties_.FlagsOf(target);
    return Action(flags,
                  (target_flags & kPunctuationFlag) != 0 ? CharacterKind::kPunctuation
                                                         : CharacterKind::kLetter,
                  target);
  }

  CharacterAction Action(uint32_t flags, CharacterKind kind, uint32_t target) const {
    // Actions that are equal share pages. The case flags matter only for a capital sigma, so they
    // are dropped where that is not treated specially.
    const bool keep = rules_.lower_case && !rules_.hugging_face;
    return {kind, target, keep && (flags & kCasedFlag) != 0,
            keep && (flags & kCaseIgnorableFlag) != 0};
  }

  uint8_t CombiningClass(uint32_t c) const {
    const auto found = properties_.combining_classes.find(c);
    return found == properties_.combining_classes.end() ? uint8_t{0} : found->second;
  }

  uint32_t AddSpecial(SpecialCharacter::Type type, const Sequence& out) {
    SpecialCharacter special{.type = type, .count = out.count, .code_points = out.code_points};
    if (type == SpecialCharacter::Type::kCombining) {
      special.combining_class = CombiningClass(out.code_points[0]);
    }
    specials_.push_back(special);
    return static_cast<uint32_t>(specials_.size() - 1);
  }

  const CharacterRules& rules_;
  const Properties properties_;
  std::vector<SpecialCharacter>& specials_;
};

}  // namespace

// Pages are shared until a part of one differs.
class CharacterTable::Builder {
 public:
  explicit Builder(CharacterTable& table) : table_(table) {
    table.pages_.assign(kCodePoints >> kPageBits, 0);
    table.actions_.resize(kPageSize);
    is_own_.resize(table.pages_.size());
  }

  void Fill(uint32_t first, uint32_t end, CharacterAction action) {
    while (first < end) {
      const uint32_t page = first >> kPageBits;
      const uint32_t page_end = std::min(end, (page + 1) << kPageBits);
      if (page_end - first == kPageSize) {
        table_.pages_[page] = UniformPage(action);
        is_own_[page] = false;
      } else {
        if (!is_own_[page]) MakeOwn(page);
        const auto begin = table_.actions_.begin() + (table_.pages_[page] << kPageBits);
        std::fill(begin + (first & (kPageSize - 1)), begin + ((page_end - 1) & (kPageSize - 1)) + 1,
                  action);
      }
      first = page_end;
    }
  }

 private:
  struct Uniform {
    CharacterAction action;
    uint16_t page;
  };

  uint16_t NewPage() {
    const size_t page = table_.actions_.size() >> kPageBits;
    DT_CHECK_LE(page, size_t{UINT16_MAX});
    table_.actions_.resize(table_.actions_.size() + kPageSize);
    return static_cast<uint16_t>(page);
  }
  uint16_t UniformPage(CharacterAction action) {
    for (const Uniform& uniform : uniforms_) {
      if (uniform.action == action) return uniform.page;
    }
    uniforms_.push_back({action, NewPage()});
    std::fill_n(table_.actions_.end() - kPageSize, kPageSize, action);
    return uniforms_.back().page;
  }
  void MakeOwn(uint32_t page) {
    const uint16_t own = NewPage();
    std::copy_n(table_.actions_.begin() + (table_.pages_[page] << kPageBits), kPageSize,
                table_.actions_.begin() + (own << kPageBits));
    table_.pages_[page] = own;
    is_own_[page] = true;
  }

  CharacterTable& table_;
  std::vector<bool> is_own_;
  std::vector<Uniform> uniforms_;
};

CharacterTable::CharacterTable(const CharacterRules& rules) {
  Builder builder(*this);
  ActionMaker(rules, specials_).MakeAll([&](uint32_t first, uint32_t end, CharacterAction action) {
    builder.Fill(first, end, action);
  });
}

}  // namespace dtrain::internal
