// tokenization.h - which tokenizer the data section of a BERT program's configuration asks for.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_TOKENIZATION_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_TOKENIZATION_H_

#include <string>

#include "dtrain/bert.pb.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain::internal {

// Reads the tokenization from a section with the fields lower_case, accents and tokenizer.
template <typename DataConfig>
WordPieceOptions TokenizationOf(const DataConfig& data) {
  using Config = proto::Tokenization;
  WordPieceOptions options;
  options.behavior = data.tokenizer() == Config::google ? WordPieceBehavior::kGoogle
                                                        : WordPieceBehavior::kHuggingFace;
  options.lower_case = data.lower_case();
  if (data.accents() != Config::with_capitals) {
    options.strip_accents = data.accents() == Config::strip;
  }
  return options;
}

// Warns where data.lower_case does not fit the vocabulary in the file `path`: a tokenizer that
// takes capitals off leaves pieces with capitals without use, and one that does not makes [UNK] of
// them where the vocabulary has none. For one rank to call.
void WarnOfCapitals(const TextTokenizer& tokenizer, const std::string& path);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_TOKENIZATION_H_
