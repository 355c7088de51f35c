// hf_tokenizer.h - a tokenizer in the file formats of Hugging Face's tokenizers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_INTERNAL_HF_TOKENIZER_H_
#define DTRAIN_TASKS_TRANSLATION_INTERNAL_HF_TOKENIZER_H_

#include <string>
#include <vector>

#include "dtrain/tasks/shared/internal/hf_folder.h"
#include "dtrain/tokenizers/bpe.h"

namespace dtrain {
class TranslationTokenizer;
}  // namespace dtrain

namespace dtrain::internal {

// vocab.json: {piece: id}, <pad> included, by id.
std::string HfVocabulary(const BpeModel& tokenizer);

// tokenizer.json: the same pieces as the tokenizer gives, </s> appended.
std::string HfTokenizer(const BpeModel& tokenizer);

// The files that transformers reads a tokenizer from. Those of a Marian model are what was read;
// `config` is the tokenizer_config.json of one that has none.
std::vector<HfFile> HfTokenizerFiles(const TranslationTokenizer& tokenizer, std::string config);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_TRANSLATION_INTERNAL_HF_TOKENIZER_H_
