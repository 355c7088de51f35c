// seed_pieces.h - the texts that occur again and again: a large vocabulary to choose from.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_SEED_PIECES_H_
#define DTRAIN_TOKENIZERS_INTERNAL_SEED_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/internal/unigram_words.h"

namespace dtrain::internal {

struct SeedOptions {
  size_t limit = 1'000'000;       // number of pieces besides the characters
  int32_t max_piece_length = 16;  // in code points, with the space
  bool split_by_script = true;    // a piece has letters of one script, or none
  bool split_digits = false;      // a digit is a piece of its own
};

struct SeedPiece {
  std::string text;
  double score;  // number of occurrences times length
};

// All characters of the words, then the parts of words of two or more characters that occur at
// least twice, with the highest scores. Of parts with the same occurrences only the longest is
// taken, as far as max_piece_length allows. Returns DataError for words of 2^32 characters or more.
StatusOr<std::vector<SeedPiece>> SeedPieces(const UnigramWords& words, const SeedOptions& options);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_SEED_PIECES_H_
