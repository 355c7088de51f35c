// token_masking.h - hides some tokens of a text for a model to guess: BERT's masked language model.
// SPDX-License-Identifier: Apache-2.0
//
// Devlin et al., "BERT" (2019), section 3.1: of 15 % of the tokens, 80 % become [MASK], 10 % a
// random token, and 10 % stay as they are. Rules of create_pretraining_data.py of
// google-research/bert, but that the number of masked tokens depends on the length alone: where
// only words are left that are longer than what is still to be masked, the first pieces of one are.
#ifndef DTRAIN_TASKS_PRETRAINING_TOKEN_MASKING_H_
#define DTRAIN_TASKS_PRETRAINING_TOKEN_MASKING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/tasks/pretraining/document_shard.h"

namespace dtrain {

struct MaskingOptions {
  double share = 0.15;           // of a sequence's tokens, above 0 and below 1
  int32_t max_predictions = 20;  // in a sequence, at least 1
  bool whole_words = false;      // all pieces of a word or none, but of the last word, as above
};

// How many of a sequence's `length` tokens are masked; `special` of them are [CLS] and [SEP], which
// never are. At least 1 where there is another token.
int32_t MaskedCount(int32_t length, int32_t special, const MaskingOptions& options);

// Masks MaskedCount() of the tokens of [CLS] a [SEP] (b [SEP]) in place and appends what they were
// to `masked_ids` and their places in `ids`, rising, to `positions`.
void MaskTokens(const DocumentShardInfo& vocabulary, const MaskingOptions& options,
                RandomStream& random, std::span<int32_t> ids, std::vector<int32_t>& positions,
                std::vector<int32_t>& masked_ids);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_TOKEN_MASKING_H_
