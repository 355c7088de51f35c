// span_checks.h - what holds for the places of tokens, whatever the model and the text.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_FUZZ_SPAN_CHECKS_H_
#define DTRAIN_TESTS_FUZZ_SPAN_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/encoded_texts.h"

namespace dtrain::testing {

// Ids with places are those without; places lie inside of the text and never decrease. Of texts
// that are no UTF-8 nothing is asked.
template <typename Tokenizer, typename Encoder>
void CheckSpans(const Tokenizer& tokenizer, std::string_view text) {
  if (!IsValidUtf8(text)) return;
  std::vector<int32_t> ids;
  std::vector<int32_t> plain;
  std::vector<TokenSpan> spans;
  tokenizer.EncodeWithSpans(text, ids, spans);
  Encoder(tokenizer, /*cache_bytes=*/1024, /*match_special_tokens=*/false).Encode(text, plain);
  DT_CHECK(ids == plain);
  DT_CHECK_EQ(ids.size(), spans.size());
  TokenSpan last;
  for (const TokenSpan& span : spans) {
    DT_CHECK(last.begin <= span.begin && last.end <= span.end && span.begin <= span.end &&
             span.end <= static_cast<int32_t>(text.size()));
    last = span;
  }
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_FUZZ_SPAN_CHECKS_H_
