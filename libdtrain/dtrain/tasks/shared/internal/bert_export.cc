// bert_export.cc - config.json of a BERT, its tokenizer's files, and its weights.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/bert_export.h"

#include <string_view>
#include <vector>

#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/log.h"
#include "dtrain/config/internal/shortest_decimal.h"
#include "dtrain/tasks/shared/internal/hf_folder.h"
#include "dtrain/tasks/shared/internal/modernbert_shape.h"
#include "dtrain/tasks/shared/internal/peft_folder.h"
#include "dtrain/tasks/shared/internal/vocabulary_file.h"
#include "dtrain/tokenizers/internal/merges_files.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain::internal {
namespace {

using Json = nlohmann::ordered_json;

// Ids of special tokens; null where the tokenizer has no such token.
struct SpecialIds {
  Json pad, cls, sep;
};

Json ConfigJson(const BertExport& model, const SpecialIds& special) {
  const BertOptions& encoder = model.encoder;
  const EncoderKeys& keys = encoder.family->keys;
  Json json = {{"architectures", {model.class_name()}},
               {"model_type", std::string(encoder.family->name)},
               {"vocab_size", encoder.vocab_size}};
  const auto set = [&json](std::string_view key, const Json& value) {
    if (!key.empty()) json[std::string(key)] = value;
  };
  set(keys.embedding_size, encoder.embedding_width());
  set(keys.hidden_size, encoder.hidden_size);
  set(keys.num_layers, encoder.num_layers);
  set(keys.num_heads, encoder.num_heads);
  set(keys.ffn_size, encoder.ffn_size);
  set(keys.activation, HfActivationName(encoder.activation));
  set(keys.dropout, ShortestDecimal(encoder.dropout));
  set(keys.attention_dropout, ShortestDecimal(encoder.attention_dropout));
  if (model.classifier_dropout) {
    set(keys.classifier_dropout, ShortestDecimal(*model.classifier_dropout));
  }
  json["max_position_embeddings"] = encoder.position_offset + encoder.max_positions;
  set(keys.type_vocab_size, encoder.type_vocab_size);
  json["initializer_range"] = ShortestDecimal(encoder.initializer_range);
  set(keys.layer_norm_epsilon, ShortestDecimal(encoder.layer_norm_epsilon));
  json["pad_token_id"] =
      encoder.family->positions_follow_padding ? Json(encoder.position_offset - 1) : special.pad;
  if (model.mean_pooling) set(keys.pooling, *model.mean_pooling ? "mean" : "cls");
  if (encoder.family->form.has_rotary_positions) {
    AddModernBertKeys(encoder, json);
    for (const char* const key : {"bos_token_id", "cls_token_id"}) json[key] = special.cls;
    for (const char* const key : {"eos_token_id", "sep_token_id"}) json[key] = special.sep;
  } else {
    json["position_embedding_type"] = "absolute";
  }
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

Json TokenizerConfigJson(const WordPieceOptions& tokenization, const BertOptions& encoder) {
  const Json strip_accents =
      tokenization.strip_accents ? Json(*tokenization.strip_accents) : Json(nullptr);
  const std::string_view own = encoder.family->word_piece_class;
  const std::string tokenizer(own.empty() ? "BertTokenizer" : own);
  Json json = {{"tokenizer_class", tokenizer},
               {"do_lower_case", tokenization.lower_case},
               {"do_basic_tokenize", true},
               {"never_split", nullptr},
               {"strip_accents", strip_accents},
               {"tokenize_chinese_chars", true},
               {"model_max_length", encoder.max_positions},
               {"clean_up_tokenization_spaces", false}};
  // Read by our own programs alone.
  if (IsGoogles(tokenization)) json["dtrain_tokenizer"] = "google";
  json.update(SpecialTokensJson());
  return json;
}

// The files of a vocab.txt.
StatusOr<std::vector<HfFile>> WordPieceFiles(const BertExport& model,
                                             const Checkpoint& checkpoint) {
  DT_ASSIGN_OR_RETURN(std::string vocabulary, checkpoint.ReadText(kWordPieceFile));
  const Json tokenizer = TokenizerConfigJson(model.tokenization, model.encoder);
  if (IsGoogles(model.tokenization)) {
    LogWarning(
        "the model was trained with data.tokenizer=google, and Hugging Face's tokenizer cuts some "
        "texts otherwise: final sigmas, words of 101 to 200 characters, [SEP] within a text");
  }
  if (model.encoder.family->word_piece_class.empty()) {
    LogWarning(
        "AutoTokenizer of transformers expects another tokenizer than WordPiece here; load it by "
        "BertTokenizer.from_pretrained(), or learn a vocabulary of type byte_bpe");
  }
  return std::vector<HfFile>{
      {kWordPieceFile, std::move(vocabulary)},
      {"special_tokens_map.json", internal::JsonText(SpecialTokensJson(), 2) + "\n"},
      {kTokenizerConfigFile, internal::JsonText(tokenizer, 2) + "\n"}};
}

StatusOr<TextTokenizer> LoadTokenizer(const Checkpoint& checkpoint) {
  return TextTokenizer::Load(checkpoint.path() + "/" + VocabularyNameIn(checkpoint));
}

// Those of another tokenizer: what was read.
StatusOr<std::vector<HfFile>> TokenizerFiles(const BertExport& model,
                                             const Checkpoint& checkpoint) {
  std::vector<HfFile> files;
  for (const char* const name : {kTokenizerFile, kPiecesFile, kMergesFile, kTokenizerConfigFile,
                                 kSpecialTokensFile, kAddedTokensFile}) {
    if (!checkpoint.Has(name)) continue;
    DT_ASSIGN_OR_RETURN(std::string text, checkpoint.ReadText(name));
    files.emplace_back(name, std::move(text));
  }
  // transformers finds vocab.json and merges.txt by itself.
  if (!checkpoint.Has(kTokenizerConfigFile) && checkpoint.Has(kTokenizerFile)) {
    DT_ASSIGN_OR_RETURN(const TextTokenizer tokenizer, LoadTokenizer(checkpoint));
    Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"model_max_length", model.encoder.max_positions},
                 {"cls_token", tokenizer.Piece(tokenizer.cls_id())},
                 {"sep_token", tokenizer.Piece(tokenizer.sep_id())}};
    if (tokenizer.mask_id() >= 0) json["mask_token"] = tokenizer.Piece(tokenizer.mask_id());
    if (tokenizer.pad_id() >= 0) json["pad_token"] = tokenizer.Piece(tokenizer.pad_id());
    files.emplace_back(kTokenizerConfigFile, internal::JsonText(json, 2) + "\n");
  }
  return files;
}

// The keys of the config.json that the run began with, those of its weights' number type left out.
StatusOr<Json> KeptConfig(const Checkpoint& checkpoint) {
  if (!checkpoint.Has(kPretrainedConfigFile)) return Json::object();
  DT_ASSIGN_OR_RETURN(const std::string text, checkpoint.ReadText(kPretrainedConfigFile));
  Json json = internal::ParseJson<Json>(text);
  if (!json.is_object()) return Json::object();
  json.erase("dtype");
  return json;
}

StatusOr<SpecialIds> SpecialIdsOf(const Checkpoint& checkpoint) {
  DT_ASSIGN_OR_RETURN(const TextTokenizer tokenizer, LoadTokenizer(checkpoint));
  const auto id = [](int32_t value) { return value >= 0 ? Json(value) : Json(nullptr); };
  return SpecialIds{
      .pad = id(tokenizer.pad_id()), .cls = id(tokenizer.cls_id()), .sep = id(tokenizer.sep_id())};
}

}  // namespace

Status WriteBertExport(const BertExport& model, const Checkpoint& checkpoint,
                       const std::string& directory, const HfExportOptions& options) {
  if (options.adapter) {
    return WritePeftFolder({.task = model.head,
                            .base = model.pretrained,
                            .encoder = model.encoder.family->encoder,
                            .low_rank = model.encoder.low_rank,
                            .parameters = model.parameters},
                           directory, options.overwrite);
  }
  const bool is_word_piece = VocabularyNameIn(checkpoint) == kWordPieceFile;
  DT_ASSIGN_OR_RETURN(std::vector<HfFile> files, is_word_piece ? WordPieceFiles(model, checkpoint)
                                                               : TokenizerFiles(model, checkpoint));
  DT_ASSIGN_OR_RETURN(const SpecialIds special, SpecialIdsOf(checkpoint));
  DT_ASSIGN_OR_RETURN(Json config, KeptConfig(checkpoint));
  config.update(ConfigJson(model, special));
  files.emplace_back("config.json", internal::JsonText(config, 2) + "\n");
  return WriteHfFolder(directory, options.overwrite, HfTensors(model.parameters), files);
}

}  // namespace dtrain::internal
