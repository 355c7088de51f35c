// wordpiece_trainer.h - learns a WordPiece vocabulary, BERT's vocab.txt, from text of any size.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const LearnedWordPieces learned,
//                       LearnWordPiece(source, {.words = {.lower_case = true}}));
//   // learned.pieces, one a line, is what WordPieceTokenizer::Load() reads
//
// Text becomes words as WordPieceTokenizer makes them; a word is its characters, all but the first
// as "##x". The most frequent pair of neighbours merges first, as in BPE (Sennrich, Haddow, Birch,
// "Neural Machine Translation of Rare Words with Subword Units" (2016), section 3.2) and in Hugging
// Face's WordPieceTrainer; of equally frequent ones that with the shorter result, then the one that
// sorts first. The result depends on the counts alone: not on threads, batches or the order of
// lines.
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
  // Those of the tokenizer that will use the vocabulary; special tokens in the text are words.
  WordPieceOptions words = {};
  // Pieces at most, the five special tokens included.
  int32_t vocab_size = 30522;
  // Pairs seen less often do not merge.
  int64_t min_frequency = 2;
  // So many characters, the most frequent ones, are in the vocabulary; equally frequent ones in
  // order of code points. A word with another one is [UNK].
  int32_t limit_alphabet = 1000;
  // Threads that count words; 0 takes NumThreads().
  int num_threads = 0;
};

struct LearnedWordPieces {
  // [PAD] [UNK] [CLS] [SEP] [MASK], the characters, those of them that continue a word as "##x",
  // both by code point, and the merged pieces in the order of their merges. None is there twice.
  std::vector<std::string> pieces;
  int64_t words = 0;           // of the text
  int64_t distinct_words = 0;  // of those
  // Of `words`: [UNK], as they are too long or have a character beyond limit_alphabet.
  int64_t unknown_words = 0;
  int64_t left_out_characters = 0;  // distinct ones, beyond limit_alphabet
};

// Fewer pieces than vocab_size where the text has fewer pairs worth merging. The next batch of
// lines is asked for on another thread while one is counted; memory grows with distinct words.
// DataError for a text without words; UsageError for options out of range and a vocabulary that
// cannot hold the characters; or the source's error.
StatusOr<LearnedWordPieces> LearnWordPiece(const LineSource& source,
                                           const WordPieceTrainerOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_WORDPIECE_TRAINER_H_
