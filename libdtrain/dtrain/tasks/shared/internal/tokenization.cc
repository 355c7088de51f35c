// tokenization.cc - looks through a vocabulary for capitals.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/tokenization.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"

namespace dtrain::internal {

void WarnOfCapitals(const TextTokenizer& any, const std::string& path) {
  if (any.word_piece() == nullptr) return;
  const WordPieceTokenizer& tokenizer = *any.word_piece();
  int32_t capitals = 0;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view piece = tokenizer.Piece(id);
    if (piece.starts_with('[')) continue;  // [CLS], [unused1]
    capitals += std::any_of(piece.begin(), piece.end(), absl::ascii_isupper) ? 1 : 0;
  }
  if (tokenizer.options().lower_case && capitals > tokenizer.vocab_size() / 100) {
    LogWarning(absl::StrFormat(
        "%s: %d of %d pieces have capitals, which texts lose with data.lower_case=true; set "
        "data.lower_case=false if the model is cased",
        path, capitals, tokenizer.vocab_size()));
  }
  if (!tokenizer.options().lower_case && capitals == 0) {
    LogWarning(
        absl::StrFormat("%s: no piece has a capital, so that words with one become [UNK]; set "
                        "data.lower_case=true if the model is uncased",
                        path));
  }
}

}  // namespace dtrain::internal
