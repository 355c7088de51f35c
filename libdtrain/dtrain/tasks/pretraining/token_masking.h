// token_masking.h - masks tokens of a text for BERT's masked language model.
// SPDX-License-Identifier: Apache-2.0
//
// Devlin et al., "BERT" (2019), section 3.1: 15 % of the tokens are selected. Of these, 80 % become
// [MASK], 10 % a random token, and 10 % stay unchanged. The rules are those of
// create_pretraining_data.py of google-research/bert, with one difference: the number of masked
// tokens depends only on the length. If all remaining words are longer than the number still to
// mask, only the first pieces of one word are masked.
#ifndef DTRAIN_TASKS_PRETRAINING_TOKEN_MASKING_H_
#define DTRAIN_TASKS_PRETRAINING_TOKEN_MASKING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/tasks/pretraining/document_shard.h"

namespace dtrain {

struct MaskingOptions {
  double share = 0.15;           // share of a sequence's tokens, above 0 and below 1
  int32_t max_predictions = 20;  // maximum per sequence, at least 1
  bool whole_words = false;      // true: mask all pieces of a word or none, except in the last word
                                 // (see above)
};

// Number of masked tokens in a sequence of `length` tokens, of which `special` are [CLS] and [SEP],
// which are never masked. At least 1 if there is another token.
int32_t MaskedCount(int32_t length, int32_t special, const MaskingOptions& options);

// Masks MaskedCount() tokens of [CLS] a [SEP] (b [SEP]) in place. Appends the original ids to
// `masked_ids`, and their positions in `ids`, ascending, to `positions`.
void MaskTokens(const DocumentShardInfo& vocabulary, const MaskingOptions& options,
                RandomStream& random, std::span<int32_t> ids, std::vector<int32_t>& positions,
                std::vector<int32_t>& masked_ids);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_TOKEN_MASKING_H_
