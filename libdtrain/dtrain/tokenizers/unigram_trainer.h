// unigram_trainer.h - learns a Unigram vocabulary (XLM-R, SentencePiece) from text of any size.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const LearnedUnigram learned,
//                       LearnUnigram(source, {.vocab_size = 8000}));
//   DT_RETURN_IF_ERROR(WriteFileAtomically("tokenizer.json", UnigramJson(learned)));
//   DT_RETURN_IF_ERROR(WriteFileAtomically("tokenizer.spm", UnigramModelProto(learned)));
//   // read them with UnigramTokenizer::Load(), with transformers and with SentencePiece
//
// Kudo, "Subword Regularization" (2018), section 3.2, with SentencePiece's conventions. The parts
// of words that occur often are a first, large vocabulary. Expectation and maximisation fit their
// probabilities to the text; then a quarter of them, without which the text would lose the least,
// is dropped. Both repeat until the vocabulary is small enough. Text is not normalised, but for
// spaces: they are squeezed to one, which U+2581 stands for, and one is put in front of a line. The
// result depends only on the counts of words, not on threads, batches or the order of lines.
#ifndef DTRAIN_TOKENIZERS_UNIGRAM_TRAINER_H_
#define DTRAIN_TOKENIZERS_UNIGRAM_TRAINER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/bpe_trainer.h"
#include "dtrain/tokenizers/special_tokens.h"

namespace dtrain {

struct UnigramTrainerOptions {
  // Largest number of pieces, with the special tokens.
  int32_t vocab_size = 8000;
  // Share of all characters in the text that the vocabulary covers, in (0, 1]. The rarest ones are
  // left out, and become the unknown token.
  double character_coverage = 0.9995;
  // Length of the longest piece in code points, including U+2581.
  int32_t max_piece_length = 16;
  // A piece has letters of one script only, and never both letters and digits or punctuation.
  bool split_by_script = true;
  // Every digit is a separate piece.
  bool split_digits = false;
  // Size of the first vocabulary, besides single characters.
  int32_t seed_size = 1'000'000;
  // The share of pieces that a round keeps, in (0, 1).
  double shrinking_factor = 0.75;
  // Rounds of expectation and maximisation before pieces are dropped.
  int32_t sub_iterations = 2;
  SpecialTokens special = {};
  // Number of threads; 0 means NumThreads().
  int num_threads = 0;
};

struct LearnedUnigram {
  struct Piece {
    std::string text;  // with U+2581 for the space
    float score;       // natural logarithm of its probability
  };
  SpecialTokens special = {};
  std::vector<Piece> pieces = {};  // the most likely first; ids are behind the special tokens
  int64_t words = 0;               // number of words in the text
  int64_t distinct_words = 0;      // number of different words
  int64_t long_words = 0;          // number of `words` that are too long to learn from (4096 bytes)
  int64_t characters = 0;          // number of `pieces` of one character

  int64_t vocab_size() const { return static_cast<int64_t>(special.texts.size() + pieces.size()); }
};

// Learns a vocabulary. It has fewer pieces than vocab_size if the text has fewer parts that are
// worth a piece. Returns DataError for a text without words; UsageError if options are out of
// range, the vocabulary is too small for the characters, or a special token is a piece; or the
// source's error.
StatusOr<LearnedUnigram> LearnUnigram(const LineSource& source,
                                      const UnigramTrainerOptions& options);

// The text of a tokenizer.json. Rows are <s> A </s> and <s> A </s></s> B </s>, as XLM-R's.
std::string UnigramJson(const LearnedUnigram& learned);

// The bytes of a SentencePiece model with the same ids. A row has no special tokens there.
std::string UnigramModelProto(const LearnedUnigram& learned);

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_UNIGRAM_TRAINER_H_
