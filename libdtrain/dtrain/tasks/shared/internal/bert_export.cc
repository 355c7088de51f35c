// bert_export.cc - config.json of a BERT, its tokenizer's files, and its weights.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/bert_export.h"

#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/log.h"
#include "dtrain/config/internal/shortest_decimal.h"
#include "dtrain/tasks/shared/internal/hf_folder.h"

namespace dtrain::internal {
namespace {

using Json = nlohmann::ordered_json;

// The line of a piece, or null.
Json IdOf(std::string_view piece, const std::string& vocabulary) {
  const std::vector<std::string> pieces = absl::StrSplit(vocabulary, '\n');
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id] == piece) return id;
  }
  return nullptr;
}

Json ConfigJson(const BertExport& model, const std::string& vocabulary) {
  const BertOptions& encoder = model.encoder;
  Json json = {{"architectures", {model.class_name}},
               {"model_type", "bert"},
               {"vocab_size", encoder.vocab_size},
               {"hidden_size", encoder.hidden_size},
               {"num_hidden_layers", encoder.num_layers},
               {"num_attention_heads", encoder.num_heads},
               {"intermediate_size", encoder.ffn_size},
               {"hidden_act", HfActivationName(encoder.activation)},
               {"hidden_dropout_prob", ShortestDecimal(encoder.dropout)},
               {"attention_probs_dropout_prob", ShortestDecimal(encoder.attention_dropout)}};
  if (model.classifier_dropout)
    json["classifier_dropout"] = ShortestDecimal(*model.classifier_dropout);
  json.update({{"max_position_embeddings", encoder.max_positions},
               {"type_vocab_size", encoder.type_vocab_size},
               {"initializer_range", ShortestDecimal(encoder.initializer_range)},
               {"layer_norm_eps", ShortestDecimal(encoder.layer_norm_epsilon)},
               {"pad_token_id", IdOf("[PAD]", vocabulary)},
               {"position_embedding_type", "absolute"}});
  json.update(model.fields);
  json["torch_dtype"] = "float32";
  return json;
}

Json SpecialTokensJson() {
  return {{"unk_token", "[UNK]"},
          {"sep_token", "[SEP]"},
          {"pad_token", "[PAD]"},
          {"cls_token", "[CLS]"},
          {"mask_token", "[MASK]"}};
}

bool IsGoogles(const WordPieceOptions& tokenization) {
  return tokenization.behavior == WordPieceBehavior::kGoogle;
}

Json TokenizerConfigJson(const WordPieceOptions& tokenization, int64_t max_positions) {
  const Json strip_accents =
      tokenization.strip_accents ? Json(*tokenization.strip_accents) : Json(nullptr);
  Json json = {{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", tokenization.lower_case},
               {"do_basic_tokenize", true},          {"never_split", nullptr},
               {"strip_accents", strip_accents},     {"tokenize_chinese_chars", true},
               {"model_max_length", max_positions},  {"clean_up_tokenization_spaces", false}};
  // Read by our own programs alone.
  if (IsGoogles(tokenization)) json["dtrain_tokenizer"] = "google";
  json.update(SpecialTokensJson());
  return json;
}

}  // namespace

Status WriteBertExport(const BertExport& model, const Checkpoint& checkpoint,
                       const std::string& directory, bool overwrite) {
  DT_ASSIGN_OR_RETURN(const std::string vocabulary, checkpoint.ReadText("vocab.txt"));
  const Json tokenizer = TokenizerConfigJson(model.tokenization, model.encoder.max_positions);
  if (IsGoogles(model.tokenization)) {
    LogWarning(
        "the model was trained with data.tokenizer=google, and Hugging Face's tokenizer cuts some "
        "texts otherwise: final sigmas, words of 101 to 200 characters, [SEP] within a text");
  }
  const HfFile files[] = {
      {"vocab.txt", vocabulary},
      {"special_tokens_map.json", internal::JsonText(SpecialTokensJson(), 2) + "\n"},
      {"tokenizer_config.json", internal::JsonText(tokenizer, 2) + "\n"},
      {"config.json", internal::JsonText(ConfigJson(model, vocabulary), 2) + "\n"}};
  return WriteHfFolder(directory, overwrite, HfTensors(model.parameters), files);
}

}  // namespace dtrain::internal
