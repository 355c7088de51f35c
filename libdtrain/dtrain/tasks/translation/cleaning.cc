// cleaning.cc - the cleaning rules, the cheapest first.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/cleaning.h"

#include <utf8proc.h>

#include <algorithm>
#include <functional>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/internal/hash.h"

namespace dtrain {
namespace {

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

// Equal for lines that consist of the same words.
uint64_t HashWords(std::string_view text) {
  text = Trim(text);
  const auto is_plain = [](char a, char b) { return !IsSpace(a) || (a == ' ' && !IsSpace(b)); };
  const auto odd = std::adjacent_find(text.begin(), text.end(), std::not_fn(is_plain));
  if (odd == text.end()) return internal::StableHash(text);
  std::string words;
  for (const char c : text) {
    if (!IsSpace(c)) {
      words += c;
    } else if (words.back() != ' ') {
      words += ' ';
    }
  }
  return internal::StableHash(words);
}

bool HasControlCharacters(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 && c != '\t') || c == 0x7F) return true;
    // C1 controls: U+0080 to U+009F.
    if (c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) {
      return true;
    }
  }
  return false;
}

struct WordStats {
  int64_t words = 0;
  int64_t longest = 0;  // bytes
};

WordStats GetWordStats(std::string_view text) {
  WordStats stats;
  int64_t length = 0;
  for (const char c : text) {
    if (IsSpace(c)) {
      length = 0;
      continue;
    }
    if (length++ == 0) ++stats.words;
    stats.longest = std::max(stats.longest, length);
  }
  return stats;
}

// Share of letters and their marks among the characters that are not white space.
double LetterRatio(std::string_view text) {
  int64_t letters = 0;
  int64_t characters = 0;
  const auto* p = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code_point = 0;
    const utf8proc_ssize_t n = utf8proc_iterate(p, left, &code_point);
    if (n <= 0) break;
    p += n;
    left -= n;
    const utf8proc_category_t category = utf8proc_category(code_point);
    const bool space = category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_CC;
    if (space) continue;
    ++characters;
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_ME) ++letters;
  }
  return characters == 0 ? 0.0 : static_cast<double>(letters) / static_cast<double>(characters);
}

// The groups of digits, sorted: "1,000.5" and "1.000,5" have the same.
std::vector<std::string_view> DigitGroups(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::vector<std::string_view> groups;
  for (size_t i = 0; i < text.size();) {
    if (!is_digit(text[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_digit(text[end])) ++end;
    groups.push_back(text.substr(i, end - i));
    i = end;
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

bool RatioTooLarge(size_t a, size_t b, double ratio, int64_t slack) {
  const auto longer = static_cast<double>(std::max(a, b));
  const auto shorter = static_cast<double>(std::min(a, b));
  return longer > ratio * shorter + static_cast<double>(slack);
}

constexpr std::string_view kDropReasonNames[] = {"kept",
                                                 "invalid_text",
                                                 "control_characters",
                                                 "empty_side",
                                                 "too_many_words",
                                                 "too_many_bytes",
                                                 "length_ratio",
                                                 "long_word",
                                                 "few_letters",
                                                 "copy",
                                                 "number_mismatch",
                                                 "duplicate_pair",
                                                 "evaluation_overlap",
                                                 "too_many_pieces"};
static_assert(std::size(kDropReasonNames) == static_cast<size_t>(DropReason::kCount));

}  // namespace

std::string_view DropReasonName(DropReason reason) {
  DT_CHECK_LT(static_cast<size_t>(reason), std::size(kDropReasonNames));
  return kDropReasonNames[static_cast<size_t>(reason)];
}

int64_t internal::CountWords(std::string_view text) { return GetWordStats(text).words; }

PairHashes HashPair(std::string_view source, std::string_view target) {
  return {HashWords(source), HashWords(target)};
}

struct PairCleaner::Memory {
  internal::HashSet pairs;
  internal::HashSet evaluation_sources;
  internal::HashSet evaluation_targets;
};

PairCleaner::PairCleaner(const CleaningOptions& options)
    : options_(options), memory_(std::make_unique<Memory>()) {}
PairCleaner::PairCleaner(PairCleaner&&) noexcept = default;
PairCleaner::~PairCleaner() = default;

DropReason PairCleaner::CheckPair(std::string_view source, std::string_view target) const {
  const CleaningOptions& o = options_;
  if (o.drop_control_characters && (HasControlCharacters(source) || HasControlCharacters(target))) {
    return DropReason::kControlCharacters;
  }
  if (IsBlank(source) || IsBlank(target)) return DropReason::kEmptySide;
  source = Trim(source);
  target = Trim(target);

  const WordStats source_words = GetWordStats(source);
  const WordStats target_words = GetWordStats(target);
  const auto above = [](int64_t a, int64_t b, int64_t limit) {
    return limit > 0 && std::max(a, b) > limit;
  };
  if (above(source_words.words, target_words.words, o.max_words)) return DropReason::kTooManyWords;
  if (above(static_cast<int64_t>(source.size()), static_cast<int64_t>(target.size()),
            o.max_bytes)) {
    return DropReason::kTooManyBytes;
  }
  if (o.max_length_ratio > 0 &&
      RatioTooLarge(source.size(), target.size(), o.max_length_ratio, o.length_ratio_slack)) {
    return DropReason::kLengthRatio;
  }
  if (above(source_words.longest, target_words.longest, o.max_word_bytes)) {
    return DropReason::kLongWord;
  }
  if (o.min_letter_ratio > 0 &&
      std::min(LetterRatio(source), LetterRatio(target)) < o.min_letter_ratio) {
    return DropReason::kFewLetters;
  }
  if (o.drop_copies && source == target) return DropReason::kCopy;
  if (o.drop_number_mismatch && DigitGroups(source) != DigitGroups(target)) {
    return DropReason::kNumberMismatch;
  }
  return DropReason::kKept;
}

void PairCleaner::AddEvaluationPair(const PairHashes& hashes) {
  memory_->evaluation_sources.Insert(hashes.source);
  memory_->evaluation_targets.Insert(hashes.target);
}

DropReason PairCleaner::CheckSeen(const PairHashes& hashes) {
  if (options_.drop_duplicates &&
      !memory_->pairs.Insert(internal::MixHash(hashes.source, hashes.target))) {
    return DropReason::kDuplicatePair;
  }
  if (options_.drop_evaluation_overlap && (memory_->evaluation_sources.Contains(hashes.source) ||
                                           memory_->evaluation_targets.Contains(hashes.target))) {
    return DropReason::kEvaluationOverlap;
  }
  return DropReason::kKept;
}

void CleaningReport::Add(DropReason reason, std::string_view path, int64_t line_number) {
  Entry& entry = entries_[static_cast<size_t>(reason)];
  ++entry.pairs;
  if (reason != DropReason::kKept && entry.examples.size() < kMaxExamples) {
    entry.examples.push_back(absl::StrFormat("%s:%d", path, line_number));
  }
}

int64_t CleaningReport::pairs_read() const {
  int64_t pairs = 0;
  for (const Entry& entry : entries_) pairs += entry.pairs;
  return pairs;
}

std::string CleaningReport::Describe() const {
  std::string text;
  for (size_t i = 1; i < entries_.size(); ++i) {
    if (entries_[i].pairs == 0) continue;
    text += absl::StrFormat("%10d %-18s for example %s\n", entries_[i].pairs,
                            DropReasonName(static_cast<DropReason>(i)),
                            absl::StrJoin(entries_[i].examples, ", "));
  }
  return text;
}

}  // namespace dtrain
