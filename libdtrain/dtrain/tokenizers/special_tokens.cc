// special_tokens.cc - checks special tokens before and after a vocabulary is learned.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/special_tokens.h"

#include <unordered_set>

#include "absl/strings/str_format.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/utf8.h"

namespace dtrain {

Status CheckSpecialTokens(const SpecialTokens& tokens) {
  if (tokens.texts.size() < SpecialTokens::kLeast) {
    return UsageError(absl::StrFormat(
        "special tokens are %d; give at least %d: begin, padding, end, unknown, mask",
        tokens.texts.size(), SpecialTokens::kLeast));
  }
  std::unordered_set<std::string> seen;
  for (const std::string& text : tokens.texts) {
    if (text.empty() || !IsValidUtf8(text) || text.find('\0') != std::string::npos) {
      return UsageError(absl::StrFormat("special token \"%s\" is empty, has a NUL or is no UTF-8",
                                        Printable(text)));
    }
    if (!seen.insert(text).second) {
      return UsageError(absl::StrFormat("special token \"%s\" is given twice", Printable(text)));
    }
  }
  return OkStatus();
}

Status CheckIsNoPiece(const SpecialTokens& tokens, const std::vector<std::string>& pieces) {
  const std::unordered_set<std::string> special(tokens.texts.begin(), tokens.texts.end());
  for (const std::string& piece : pieces) {
    if (!special.contains(piece)) continue;
    return UsageError(
        absl::StrFormat("special token \"%s\" is also a piece that was learned; give one that "
                        "texts do not have, for example \"<%s>\"",
                        Printable(piece), Printable(piece)));
  }
  return OkStatus();
}

}  // namespace dtrain
