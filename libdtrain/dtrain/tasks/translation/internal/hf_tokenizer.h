// hf_tokenizer.h - a BpeModel in the file formats of Hugging Face's tokenizers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_INTERNAL_HF_TOKENIZER_H_
#define DTRAIN_TASKS_TRANSLATION_INTERNAL_HF_TOKENIZER_H_

#include <string>

#include "dtrain/tokenizers/bpe.h"

namespace dtrain::internal {

// vocab.json: {piece: id}, <pad> included, by id.
std::string HfVocabulary(const BpeModel& tokenizer);

// tokenizer.json: the same pieces as the tokenizer gives, </s> appended.
std::string HfTokenizer(const BpeModel& tokenizer);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_TRANSLATION_INTERNAL_HF_TOKENIZER_H_
