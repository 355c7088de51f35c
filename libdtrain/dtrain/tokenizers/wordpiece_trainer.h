// wordpiece_trainer.h - learns a WordPiece vocabulary (BERT's vocab.txt) from text of any size.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const LearnedWordPieces learned,
//                       LearnWordPiece(source, {.words = {.lower_case = true}}));
//   // write learned.pieces, one per line, and read them with WordPieceTokenizer::Load()
//
// Text is split into words like WordPieceTokenizer does. A word starts as its characters, all
// except the first written as "##x". The most frequent pair of neighbours is merged first, as in
// BPE (Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units"
// (2016), section 3.2) and in Hugging Face's WordPieceTrainer. Ties go to the shorter result, then
// to the one that sorts first. The result depends only on the counts, not on threads, batches or
// the order of lines.
#ifndef DTRAIN_TOKENIZERS_WORDPIECE_TRAINER_H_
#define DTRAIN_TOKENIZERS_WORDPIECE_TRAINER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/bpe_trainer.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain {

struct WordPieceTrainerOptions {
  // Options of the tokenizer that will use the vocabulary. Special tokens in the text count as
  // words.
  WordPieceOptions words = {};
  // Maximum number of pieces, including the five special tokens.
  int32_t vocab_size = 30522;
  // Pairs that occur less often are not merged.
  int64_t min_frequency = 2;
  // The vocabulary contains this many characters, the most frequent ones; equally frequent ones in
  // the order of code points. A word with any other character becomes [UNK].
  int32_t limit_alphabet = 1000;
  // Number of threads that count words; 0 means NumThreads().
  int num_threads = 0;
};

struct LearnedWordPieces {
  // [PAD] [UNK] [CLS] [SEP] [MASK]; the characters; the characters that continue words as "##x",
  // both by code point; and the merged pieces in the order of their merges. No piece occurs twice.
  std::vector<std::string> pieces;
  int64_t words = 0;           // number of words in the text
  int64_t distinct_words = 0;  // number of different words
  // Number of `words` that become [UNK], because they are too long or have a character outside of
  // limit_alphabet.
  int64_t unknown_words = 0;
  int64_t left_out_characters = 0;  // number of different characters outside of limit_alphabet
};

// Learns a vocabulary. It has fewer pieces than vocab_size if the text has fewer pairs worth
// merging. The next batch of lines is read on another thread while one is counted. Memory grows
// with the number of different words. Returns DataError for a text without words; UsageError if
// options are out of range or the vocabulary is too small for the characters; or the source's
// error.
StatusOr<LearnedWordPieces> LearnWordPiece(const LineSource& source,
                                           const WordPieceTrainerOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_WORDPIECE_TRAINER_H_
