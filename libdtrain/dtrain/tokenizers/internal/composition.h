// composition.h - canonical composition (NFC) as `tokenizers` does it.
// SPDX-License-Identifier: Apache-2.0
//
// utf8proc composes by its own version of Unicode, which has more marks than the older one that the
// tokenizers of published models know. Characters that are nothing special there are left alone.
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

// Returns the composed form (Unicode Standard Annex 15) of valid UTF-8.
std::string Compose(std::string_view text);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_COMPOSITION_H_
