// added_tokens.h - cuts a text at the tokens that are matched as a whole, such as <mask>.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_ADDED_TOKENS_H_
#define DTRAIN_TOKENIZERS_INTERNAL_ADDED_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "dtrain/tokenizers/internal/tokenizer_file.h"

namespace dtrain::internal {

// The first match from the left, and of those that begin there the longest.
class AddedTokenMatcher {
 public:
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  bool is_empty() const { return tokens_.empty(); }

  // Calls text(part) for each part of `all` (valid UTF-8) between tokens that is not empty, and
  // token(id, part) for each token and what it takes, in their order.
  template <typename Text, typename Token>
  void SplitWithPlaces(std::string_view all, const Text& text, const Token& token) const {
    size_t done = 0;
    for (Match match = Next(all, 0, done); match.token != nullptr;
         match = Next(all, match.end, done)) {
      if (match.begin > done) text(all.substr(done, match.begin - done));
      token(match.token->id, all.substr(match.begin, match.end - match.begin));
      done = match.end;
    }
    if (done < all.size()) text(all.substr(done));
  }
  // The same with token(id).
  template <typename Text, typename Token>
  void Split(std::string_view all, const Text& text, const Token& token) const {
    SplitWithPlaces(all, text, [&](int32_t id, std::string_view) { token(id); });
  }

 private:
  struct Match {
    const AddedToken* token = nullptr;
    size_t begin = 0;
    size_t end = 0;
  };
  // The first match from `from` on, with the white space that it takes along. Text before `done`
  // belongs to the token before.
  Match Next(std::string_view all, size_t from, size_t done) const;
  const AddedToken* LongestAt(std::string_view rest) const;

  std::vector<AddedToken> tokens_;  // sorted by first byte, then the longest first
  // Tokens that begin with byte b have the indices from first_[b] to first_[b + 1].
  std::array<uint32_t, 257> first_{};
};

// The added tokens of a tokenizer.
class AddedTokens {
 public:
  AddedTokens() = default;
  // `raw` are searched for in the text as it is, `normalized` in the normalised text.
  AddedTokens(const std::vector<AddedToken>& raw, const std::vector<AddedToken>& normalized);

  struct Matchers {
    AddedTokenMatcher raw{{}};
    AddedTokenMatcher normalized{{}};
  };
  // Without special tokens for texts whose authors shall not control the model's input.
  const Matchers& matchers(bool with_special) const { return with_special ? all_ : plain_; }

 private:
  Matchers all_, plain_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_ADDED_TOKENS_H_
