// learned_json.cc - writes a tokenizer.json, and the settings that transformers reads beside it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/learned_json.h"

#include "dtrain/base/internal/json_text.h"

namespace dtrain {
namespace internal {

OrderedJson IdsJson(const std::vector<std::string>& pieces) {
  OrderedJson::object_t ids;
  ids.reserve(pieces.size());
  // OrderedJson::operator[] would compare each piece with all before it.
  size_t id = 0;
  for (const std::string& piece : pieces) ids.Container::emplace_back(piece, OrderedJson(id++));
  return ids;
}

std::string TokenizerJson(const SpecialTokens& special, const TokenizerParts& parts) {
  OrderedJson added = OrderedJson::array();
  for (size_t id = 0; id < special.texts.size(); ++id) {
    added.push_back({{"id", id},
                     {"content", special.texts[id]},
                     {"single_word", false},
                     {"lstrip", id == SpecialTokens::kMask},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const OrderedJson file = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", std::move(added)},
                            {"normalizer", parts.normalizer},
                            {"pre_tokenizer", parts.pre_tokenizer},
                            {"post_processor", parts.post_processor},
                            {"decoder", parts.decoder},
                            {"model", parts.model}};
  return JsonText(file, 1) + "\n";
}

}  // namespace internal

std::string TokenizerConfigJson(const SpecialTokens& special) {
  const std::vector<std::string>& texts = special.texts;
  const internal::OrderedJson config = {
      {"tokenizer_class", "PreTrainedTokenizerFast"}, {"bos_token", texts[SpecialTokens::kBegin]},
      {"eos_token", texts[SpecialTokens::kEnd]},      {"cls_token", texts[SpecialTokens::kBegin]},
      {"sep_token", texts[SpecialTokens::kEnd]},      {"pad_token", texts[SpecialTokens::kPadding]},
      {"unk_token", texts[SpecialTokens::kUnknown]},  {"mask_token", texts[SpecialTokens::kMask]},
      {"clean_up_tokenization_spaces", false}};
  return internal::JsonText(config, 2) + "\n";
}

}  // namespace dtrain
