// cleaning.h - rules that drop training pairs which teach nothing, each counted by its reason.
// SPDX-License-Identifier: Apache-2.0
//
// The defaults keep whatever may be good: they drop broken text, empty sides, extreme lengths,
// repeated pairs and lines of the evaluation sets. Evaluation sets themselves are never filtered.
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

// In the order in which the rules are asked; a pair is counted under the first that drops it.
enum class DropReason : uint8_t {
  kKept = 0,
  kInvalidText,        // invalid UTF-8, a NUL byte, or a line beyond the reader's limit
  kControlCharacters,  // C0 but tab, DEL, C1: the trace of a wrong encoding
  kEmptySide,          // nothing but white space
  kTooManyWords,
  kTooManyBytes,
  kLengthRatio,
  kLongWord,
  kFewLetters,
  kCopy,
  kNumberMismatch,
  kDuplicatePair,
  kEvaluationOverlap,
  kTooManyPieces,  // asked last: it needs the vocabulary
  kCount
};

// "length_ratio" and so on: the key in reports.
std::string_view DropReasonName(DropReason reason);

// Every limit is off at 0, every switch at false.
struct CleaningOptions {
  bool drop_control_characters = true;
  int64_t max_words = 250;      // of one side, separated by white space
  int64_t max_bytes = 0;        // of one side
  int64_t max_pieces = 256;     // of one side, end of sentence not counted
  double max_length_ratio = 4;  // longer <= ratio x shorter + slack, in bytes (fair to all scripts)
  int64_t length_ratio_slack = 40;
  int64_t max_word_bytes = 1000;
  double min_letter_ratio = 0;  // letters (any script) among what is not white space, on each side
  bool drop_copies = false;     // source == target
  bool drop_number_mismatch = false;  // the sides' digit groups differ, order aside
  bool drop_duplicates = true;        // the same pair was there before
  // The source occurs among the sources, or the target among the targets, of dev or test.
  bool drop_evaluation_overlap = true;
};

namespace internal {
// Words of a line: runs of what is not ASCII white space.
int64_t CountWords(std::string_view text);
}  // namespace internal

// What the rules that remember compare: words. How much white space is between and around them does
// not count.
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

  // Rules that look at one pair of valid UTF-8. Any thread.
  DropReason CheckPair(std::string_view source, std::string_view target) const;

  // Lines that train may not hold. Before the first CheckSeen().
  void AddEvaluationPair(const PairHashes& hashes);
  // Rules that remember: ask for every pair that CheckPair() kept, in file order, on one thread.
  // 16 bytes of memory a pair at most.
  DropReason CheckSeen(const PairHashes& hashes);

  const CleaningOptions& options() const { return options_; }

 private:
  struct Memory;
  CleaningOptions options_;
  std::unique_ptr<Memory> memory_;
};

// Counts of pairs by reason, with the places of the first three.
class CleaningReport {
 public:
  static constexpr int kMaxExamples = 3;
  struct Entry {
    int64_t pairs = 0;
    std::vector<std::string> examples;  // "path:line"; none of the pairs kept
  };

  void Add(DropReason reason, std::string_view path, int64_t line_number);
  void Set(DropReason reason, Entry entry) {
    entries_[static_cast<size_t>(reason)] = std::move(entry);
  }
  const Entry& entry(DropReason reason) const { return entries_[static_cast<size_t>(reason)]; }
  int64_t pairs_read() const;
  int64_t pairs_kept() const { return entry(DropReason::kKept).pairs; }
  // The reasons that dropped pairs, one line each: count, name, examples. Empty when none did.
  std::string Describe() const;

 private:
  std::array<Entry, static_cast<size_t>(DropReason::kCount)> entries_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_CLEANING_H_
