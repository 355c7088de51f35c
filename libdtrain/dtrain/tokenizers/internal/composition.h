// composition.h - the normal forms of Unicode (NFC, NFD, NFKC, NFKD) as `tokenizers` makes them.
// SPDX-License-Identifier: Apache-2.0
//
// utf8proc composes by its own version of Unicode, which has more marks and more variants of
// characters than the older one that the tokenizers of published models know. Characters that are
// nothing special there are left alone.
#ifndef DTRAIN_TOKENIZERS_INTERNAL_COMPOSITION_H_
#define DTRAIN_TOKENIZERS_INTERNAL_COMPOSITION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/tokenizers/encoded_texts.h"

namespace dtrain::internal {

// False only for texts that are composed already. Fast where there are no marks.
bool MayCompose(std::string_view text);

// Appends the composed form of `text` to `out`, and to `sources`, for each byte of it, the bytes of
// `text` that it was made from, plus `offset`.
void ComposeWithSources(std::string_view text, int32_t offset, std::string& out,
                        std::vector<TokenSpan>& sources);

// Returns the composed form, NFC (Unicode Standard Annex 15), of valid UTF-8.
std::string Compose(std::string_view text);

// Returns the decomposed form, NFD, of valid UTF-8.
std::string Decompose(std::string_view text);

// Writes variants of characters, such as ligatures and wide letters, as the usual characters.
// NFKC is the composed form of the result, NFKD the decomposed one.
std::string WithoutVariants(std::string_view text);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_COMPOSITION_H_
