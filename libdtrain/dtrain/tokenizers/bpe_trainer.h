// bpe_trainer.h - learns a BPE vocabulary from text of any size, on several threads.
// SPDX-License-Identifier: Apache-2.0
//
//   WordCounter counter;
//   while (ReadLines(lines)) counter.Add(lines);  // batches; the corpus is never in memory
//   DT_ASSIGN_OR_RETURN(const BpeModel model, LearnBpe(counter, {.vocab_size = 8000}));
//
// Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units" (2016),
// section 3.2, with SentencePiece's conventions. The most frequent pair is merged first. Ties go to
// the shorter result, then to the one that sorts first. A piece contains only a word's beginning
// and letters of one script, or only digits and punctuation. The result depends only on the counts,
// not on threads, batches or the order of lines.
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
  // Size of the vocabulary: control pieces, bytes, characters, merges and <pad>.
  int32_t vocab_size = 8000;
  // Number of threads that count words; 0 means NumThreads(). LearnBpe(counter) ignores it.
  int num_threads = 0;
  // Length of the longest piece in code points, including U+2581.
  int32_t max_piece_length = 16;
  // Share of all characters in the text that the vocabulary covers, in (0, 1]. The rarest ones are
  // left out.
  double character_coverage = 1.0;
  // Pairs that occur less often are not merged.
  int64_t min_frequency = 2;
  // A piece has letters of one script only, and never both letters and digits or punctuation.
  bool split_by_script = true;
  // Every digit is a separate piece.
  bool split_digits = false;
  // Adds 256 byte pieces, so that every text can be encoded.
  bool byte_fallback = false;
  // User-defined pieces, which follow <unk>, <s> and </s>: marks that the corpus need not have.
  // Each is different, and has at least two characters but no white space. U+2581 may be the first
  // of them: then the piece is one at the beginning of words only.
  std::vector<std::string> user_defined = {};
};

// Calls add(word) for each word of `lines`. Several calls may run at the same time.
using WordDivider = std::function<void(std::span<const std::string> lines,
                                       const std::function<void(std::string_view)>& add)>;

// Stores the next batch of lines in `lines`. An empty batch ends the corpus.
using LineSource = std::function<Status(std::vector<std::string>& lines)>;

// Counts the words of a corpus, which is passed in batches of lines. Memory grows only with the
// number of distinct words.
class WordCounter {
 public:
  // num_threads = 0 means NumThreads().
  explicit WordCounter(int num_threads = 0);
  WordCounter(WordCounter&&) noexcept;
  WordCounter& operator=(WordCounter&&) noexcept;
  ~WordCounter();

  // Counts lines without newlines, split into words like BpeModel::Encode does.
  void Add(std::span<const std::string> lines);
  // Like above, with words split by `divide`. Each thread splits a part of the lines.
  void Add(std::span<const std::string> lines, const WordDivider& divide);
  // Counts all lines of the source. The next batch is read on another thread while one is counted.
  // Returns the source's error.
  Status AddAll(const LineSource& source, const WordDivider& divide);
  // Adds `count` occurrences of a word, which must not contain spaces.
  void AddWord(std::string_view word, int64_t count);

  // Returns a single table of all counts and leaves the counter empty.
  internal::WordTable Take();

 private:
  std::vector<internal::WordTable> tables_;  // one per thread
};

// Learns a vocabulary; the counter is empty afterwards. The vocabulary is smaller than requested if
// the corpus has fewer pairs worth merging, so check vocab_size() of the result. Returns DataError
// for an empty corpus, and UsageError if options are out of range or the vocabulary is too small
// for the characters.
StatusOr<BpeModel> LearnBpe(WordCounter& counter, const BpeTrainerOptions& options);
StatusOr<BpeModel> LearnBpe(const LineSource& source, const BpeTrainerOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_BPE_TRAINER_H_
