// cleaning.h - rules that drop useless training pairs, with a count for each reason.
// SPDX-License-Identifier: Apache-2.0
//
// The defaults keep everything that may be good. They drop broken text, empty sides, extreme
// lengths, repeated pairs, and pairs that contain lines of the evaluation sets. Evaluation sets
// themselves are never filtered.
#ifndef DTRAIN_TASKS_TRANSLATION_CLEANING_H_
#define DTRAIN_TASKS_TRANSLATION_CLEANING_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/data/text_reader.h"

namespace dtrain {

// The rules in the order of their application. A pair is counted under the first rule that drops
// it.
enum class DropReason : uint8_t {
  kKept = 0,
  kInvalidText,        // invalid UTF-8, a NUL byte, or a line above the reader's limit
  kControlCharacters,  // C0 (except tab), DEL or C1 characters, a sign of a wrong encoding
  kEmptySide,          // one side has no visible character
  kTooManyWords,
  kTooManyBytes,
  kLengthRatio,
  kLongWord,
  kFewLetters,
  kCopy,
  kNumberMismatch,
  kDuplicatePair,
  kEvaluationOverlap,
  kTooManyPieces,  // applied last, because it needs the vocabulary
  kCount
};

// For example "length_ratio", the key in reports.
std::string_view DropReasonName(DropReason reason);

// A limit of 0 and a switch of false turn a rule off.
struct CleaningOptions {
  bool drop_control_characters = true;
  int64_t max_words = 250;      // per side; words are separated by white space
  int64_t max_bytes = 0;        // per side
  int64_t max_pieces = 256;     // per side, without the end of sentence
  double max_length_ratio = 4;  // longer <= ratio * shorter + slack, in bytes (fair to all scripts)
  int64_t length_ratio_slack = 40;
  int64_t max_word_bytes = 1000;
  double min_letter_ratio = 0;  // share of letters of any script among the characters that are not
                                // white space, on each side
  bool drop_copies = false;     // drop if source == target
  bool drop_number_mismatch = false;  // drop if the sides' groups of digits differ, apart from
                                      // their order
  bool drop_duplicates = true;        // drop if the same pair occurred before
  // Drop if the source occurs among the sources, or the target among the targets, of dev or test.
  bool drop_evaluation_overlap = true;
};

namespace internal {
// Number of words of a line, separated by ASCII white space.
int64_t CountWords(std::string_view text);
}  // namespace internal

// Hashes of a pair's words for the rules that remember pairs. White space does not affect them.
struct PairHashes {
  uint64_t source = 0;
  uint64_t target = 0;
};
PairHashes HashPair(std::string_view source, std::string_view target);

class PairCleaner {
 public:
  explicit PairCleaner(const CleaningOptions& options);
  PairCleaner(PairCleaner&&) noexcept;
  ~PairCleaner();

  // Applies the rules that look at a single pair of valid UTF-8. Any thread may call it.
  DropReason CheckPair(std::string_view source, std::string_view target) const;

  // Adds lines of evaluation sets, which the training data must not contain. Call it before the
  // first CheckSeen().
  void AddEvaluationPair(const PairHashes& hashes);
  // Applies the rules that remember pairs. Call it for every pair that CheckPair() kept, in file
  // order, on one thread. Needs at most 16 bytes of memory per pair.
  DropReason CheckSeen(const PairHashes& hashes);

  const CleaningOptions& options() const { return options_; }

 private:
  struct Memory;
  CleaningOptions options_;
  std::unique_ptr<Memory> memory_;
};

// Number of pairs for each reason, with the places of the first three.
class CleaningReport {
 public:
  static constexpr int kMaxExamples = 3;
  struct Entry {
    int64_t pairs = 0;
    std::vector<std::string> examples;  // "path:line"; empty for kept pairs
  };

  void Add(DropReason reason, std::string_view path, int64_t line_number);
  void Set(DropReason reason, Entry entry) {
    entries_[static_cast<size_t>(reason)] = std::move(entry);
  }
  const Entry& entry(DropReason reason) const { return entries_[static_cast<size_t>(reason)]; }
  int64_t pairs_read() const;
  int64_t pairs_kept() const { return entry(DropReason::kKept).pairs; }
  // One line for each reason that dropped pairs: count, name, examples. Empty if no pair was
  // dropped.
  std::string Describe() const;

 private:
  std::array<Entry, static_cast<size_t>(DropReason::kCount)> entries_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_CLEANING_H_
