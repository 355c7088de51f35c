// batch.h - packed pairs as the translation model takes them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_INTERNAL_BATCH_H_
#define DTRAIN_TASKS_TRANSLATION_INTERNAL_BATCH_H_

#include <utility>

#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/tasks/translation/loader.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"

namespace dtrain::internal {

inline TranslationBatch ToTranslationBatch(PairBatch& pairs) {
  return {.source_ids = std::move(pairs.source_ids),
          .source = std::move(pairs.source),
          .decoder_ids = std::move(pairs.decoder_ids),
          .target_ids = std::move(pairs.target_ids),
          .target = std::move(pairs.target)};
}

inline SpecialIds IdsOf(const TranslationTokenizer& tokenizer) {
  return {.eos_id = tokenizer.eos_id(), .start_id = tokenizer.pad_id()};
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_TRANSLATION_INTERNAL_BATCH_H_
