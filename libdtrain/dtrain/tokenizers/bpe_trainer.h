// bpe_trainer.h - learns a BPE vocabulary from text of any size, on several threads.
// SPDX-License-Identifier: Apache-2.0
//
//   WordCounter counter;
//   while (ReadLines(lines)) counter.Add(lines);  // batches; the corpus is never in memory
//   DT_ASSIGN_OR_RETURN(const BpeModel model, LearnBpe(counter, {.vocab_size = 8000}));
//
// Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units" (2016),
// section 3.2, in SentencePiece's conventions: the most frequent pair merges first; of equally
// frequent ones that with the shorter result, then the one that sorts first. Within a piece a
// word's beginning, letters of one script, and digits with punctuation keep to themselves. The
// result depends on the counts alone: not on threads, batches or the order of lines.
#ifndef DTRAIN_TOKENIZERS_BPE_TRAINER_H_
#define DTRAIN_TOKENIZERS_BPE_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/bpe.h"

namespace dtrain {

namespace internal {
class WordTable;
}

struct BpeTrainerOptions {
  // Size of the model vocabulary: control pieces, bytes, characters, merges and <pad>.
  int32_t vocab_size = 8000;
  // Threads that count words; 0 takes NumThreads(). LearnBpe(counter) has none to start.
  int num_threads = 0;
  // Longest piece in code points, the U+2581 included.
  int32_t max_piece_length = 16;
  // Share of all characters that are in the vocabulary, rarest ones left out; in (0, 1].
  double character_coverage = 1.0;
  // Pairs seen less often do not merge.
  int64_t min_frequency = 2;
  // Letters of two scripts, or letters and digits or punctuation, share no piece.
  bool split_by_script = true;
  // Every digit is a piece of its own.
  bool split_digits = false;
  // Adds 256 byte pieces, so that no text is unknown.
  bool byte_fallback = false;
};

// Calls add(word) for each word of `lines`; several run at the same time.
using WordDivider = std::function<void(std::span<const std::string> lines,
                                       const std::function<void(std::string_view)>& add)>;

// Counts the words of a corpus that comes in batches of lines; memory grows with distinct words
// only.
class WordCounter {
 public:
  // num_threads = 0 takes NumThreads().
  explicit WordCounter(int num_threads = 0);
  WordCounter(WordCounter&&) noexcept;
  WordCounter& operator=(WordCounter&&) noexcept;
  ~WordCounter();

  // Lines without newlines, divided into words as BpeModel::Encode divides them.
  void Add(std::span<const std::string> lines);
  // The same with words divided otherwise; each thread divides a part of the lines.
  void Add(std::span<const std::string> lines, const WordDivider& divide);
  // A word (no spaces) that occurs `count` more times.
  void AddWord(std::string_view word, int64_t count);

  // One table of all counts; the counter is empty afterwards.
  internal::WordTable Take();

 private:
  std::vector<internal::WordTable> tables_;  // one per thread
};

// The next batch of lines into `lines`; an empty one ends the corpus.
using LineSource = std::function<Status(std::vector<std::string>& lines)>;

// Uses the counts up. The vocabulary is smaller than asked for where the corpus has fewer pairs
// worth merging: read vocab_size() of the result. DataError for an empty corpus; UsageError for
// options out of range and for a vocabulary that cannot hold the characters.
StatusOr<BpeModel> LearnBpe(WordCounter& counter, const BpeTrainerOptions& options);
StatusOr<BpeModel> LearnBpe(const LineSource& source, const BpeTrainerOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_BPE_TRAINER_H_
