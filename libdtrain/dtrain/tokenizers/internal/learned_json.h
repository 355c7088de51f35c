// learned_json.h - the parts of a tokenizer.json that learned vocabularies share.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_LEARNED_JSON_H_
#define DTRAIN_TOKENIZERS_INTERNAL_LEARNED_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/tokenizers/special_tokens.h"

namespace dtrain::internal {

// Its keys keep their order.
using OrderedJson = nlohmann::ordered_json;

// The parts that differ from one kind of tokenizer to the next.
struct TokenizerParts {
  OrderedJson normalizer = nullptr;
  OrderedJson pre_tokenizer;
  OrderedJson post_processor;
  OrderedJson decoder;
  OrderedJson model;
};

// {piece: id} in the order of ids. No two pieces are equal.
OrderedJson IdsJson(const std::vector<std::string>& pieces);

// The text of the file. Special tokens have the first ids. The mask takes the space in front of
// it along, as RoBERTa's does.
std::string TokenizerJson(const SpecialTokens& special, const TokenizerParts& parts);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_LEARNED_JSON_H_
