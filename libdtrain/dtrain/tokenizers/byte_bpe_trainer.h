// byte_bpe_trainer.h - learns a byte-level BPE vocabulary (GPT-2, RoBERTa) from text of any size.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const LearnedByteBpe learned,
//                       LearnByteBpe(source, {.vocab_size = 50265}));
//   DT_RETURN_IF_ERROR(WriteFileAtomically("tokenizer.json", ByteBpeJson(learned)));
//   // read it with ByteBpeTokenizer::Load(), or with transformers
//
// Text is divided into words by GPT-2's pattern, as ByteBpeTokenizer does. A word starts as its
// bytes. The most frequent pair of neighbours is merged first (Sennrich, Haddow, Birch, "Neural
// Machine Translation of Rare Words with Subword Units" (2016), section 3.2). Ties go to the pair
// whose symbols are older, as in the BpeTrainer of Hugging Face's `tokenizers`. The result depends
// only on the counts of words, not on threads, batches or the order of lines.
#ifndef DTRAIN_TOKENIZERS_BYTE_BPE_TRAINER_H_
#define DTRAIN_TOKENIZERS_BYTE_BPE_TRAINER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/bpe_trainer.h"
#include "dtrain/tokenizers/special_tokens.h"

namespace dtrain {

struct ByteBpeTrainerOptions {
  // Largest number of pieces, with the special tokens and the 256 bytes.
  int32_t vocab_size = 50265;
  // Pairs that occur less often are not merged.
  int64_t min_frequency = 2;
  SpecialTokens special = {};
  // Number of threads that count words; 0 means NumThreads().
  int num_threads = 0;
};

struct LearnedByteBpe {
  SpecialTokens special = {};
  // The bytes in the order of the characters that stand for them, then merged pieces, as the
  // vocabulary writes them ("Ġman"). Ids are behind those of the special tokens.
  std::vector<std::string> pieces = {};
  // Both sides of each merge, in the order in which they were learned.
  std::vector<std::pair<std::string, std::string>> merges = {};
  int64_t words = 0;           // number of words in the text
  int64_t distinct_words = 0;  // number of different words
  int64_t long_words = 0;      // number of `words` that are too long to learn from (4096 bytes)

  int64_t vocab_size() const { return static_cast<int64_t>(special.texts.size() + pieces.size()); }
};

// Learns a vocabulary. It has fewer pieces than vocab_size if the text has fewer pairs worth
// merging. Lines have no newline, and must be valid UTF-8. Returns DataError for a text without
// words; UsageError if options are out of range, the vocabulary is too small for bytes and special
// tokens, or a special token is a piece; or the source's error.
StatusOr<LearnedByteBpe> LearnByteBpe(const LineSource& source,
                                      const ByteBpeTrainerOptions& options);

// The text of a tokenizer.json as RoBERTa's, whose rows are <s> A </s> and <s> A </s></s> B </s>.
std::string ByteBpeJson(const LearnedByteBpe& learned);

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_BYTE_BPE_TRAINER_H_
