// special_tokens.h - the special tokens of a vocabulary that is learned.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_SPECIAL_TOKENS_H_
#define DTRAIN_TOKENIZERS_SPECIAL_TOKENS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

// They have the first ids, in this order: begin of a row, padding, end of a text, unknown, mask,
// and then any others. The default is RoBERTa's.
struct SpecialTokens {
  static constexpr size_t kBegin = 0;
  static constexpr size_t kPadding = 1;
  static constexpr size_t kEnd = 2;
  static constexpr size_t kUnknown = 3;
  static constexpr size_t kMask = 4;
  static constexpr size_t kLeast = 5;

  std::vector<std::string> texts = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
};

// UsageError: there are fewer than five, two are equal, or one is empty or no UTF-8.
Status CheckSpecialTokens(const SpecialTokens& tokens);

// UsageError that names the token which is also one of the learned `pieces`.
Status CheckIsNoPiece(const SpecialTokens& tokens, const std::vector<std::string>& pieces);

// The text of a tokenizer_config.json, which tells transformers what the special tokens are for.
// AutoTokenizer then reads the folder that has it and a tokenizer.json.
std::string TokenizerConfigJson(const SpecialTokens& tokens);

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_SPECIAL_TOKENS_H_
