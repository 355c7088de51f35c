// export.cc - a translation model's files under the names and in the layout of transformers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/export.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/log.h"
#include "dtrain/config/config.h"
#include "dtrain/config/internal/shortest_decimal.h"
#include "dtrain/device/arena.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/embedding.h"
#include "dtrain/tasks/shared/internal/hf_folder.h"
#include "dtrain/tasks/shared/internal/peft_folder.h"
#include "dtrain/tasks/translation/internal/hf_tokenizer.h"
#include "dtrain/tasks/translation/internal/marian_folder.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"
#include "dtrain/tasks/translation/translator.h"

namespace dtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kBias[] = "final_logits_bias";
// The epsilon of both classes, which no configuration of theirs can change.
constexpr float kTheirEpsilon = 1e-5f;

// The keys of the config.json that the run began with, or that of a published model itself. Their
// number type is left out.
StatusOr<Json> KeptConfig(const std::string& folder) {
  DT_ASSIGN_OR_RETURN(const std::vector<NamedFile> files, internal::ReadKeptFiles(folder));
  for (const NamedFile& file : files) {
    if (file.name != internal::kKeptConfigFile) continue;
    Json json = internal::ParseJson<Json>(file.contents);
    if (!json.is_object()) break;
    json.erase("dtype");
    return json;
  }
  return Json::object();
}

Json ConfigJson(const Seq2SeqOptions& options, const std::string& class_name) {
  return {{"architectures", {class_name}},
          {"model_type", options.pre_norm ? "pegasus" : "marian"},
          {"is_encoder_decoder", true},
          {"vocab_size", options.source_vocab()},
          {"decoder_vocab_size", options.vocab_size},
          {"d_model", options.hidden_size},
          {"encoder_layers", options.encoder_layers},
          {"decoder_layers", options.decoder_layers},
          {"encoder_attention_heads", options.num_heads},
          {"decoder_attention_heads", options.num_heads},
          {"encoder_ffn_dim", options.ffn_size},
          {"decoder_ffn_dim", options.ffn_size},
          {"activation_function", internal::HfActivationName(options.activation)},
          {"dropout", internal::ShortestDecimal(options.dropout)},
          {"attention_dropout", internal::ShortestDecimal(options.attention_dropout)},
          {"activation_dropout", internal::ShortestDecimal(options.activation_dropout)},
          {"max_position_embeddings", options.max_positions},
          {"scale_embedding", true},
          {"static_position_embeddings", true},
          {"normalize_before", options.pre_norm},
          {"normalize_embedding", false},
          {"share_encoder_decoder_embeddings", options.tie_embeddings},
          {"tie_word_embeddings", options.tie_output}};
}

// The ids that configurations name.
Json IdsJson(const TranslationTokenizer& tokenizer) {
  Json json = Json::object();
  if (tokenizer.bos_id() >= 0) json["bos_token_id"] = tokenizer.bos_id();
  json["eos_token_id"] = tokenizer.eos_id();
  json["pad_token_id"] = tokenizer.pad_id();
  json["decoder_start_token_id"] = tokenizer.pad_id();
  json["forced_eos_token_id"] = tokenizer.eos_id();
  return json;
}

Json GenerationJson(const TranslationModel& trained) {
  const TranslationTokenizer& tokenizer = *trained.tokenizer;
  Json never = {Json::array({tokenizer.pad_id()})};
  for (const int32_t id : tokenizer.never_translated()) never.push_back(Json::array({id}));
  Json json = IdsJson(tokenizer);
  json["bad_words_ids"] = never;
  json["num_beams"] = 4;
  if (trained.search->rules == BeamRules::kTransformers) {
    json["num_beams"] = trained.search->beam_size;
    json["length_penalty"] = internal::ShortestDecimal(trained.search->alpha);
    json["early_stopping"] = trained.search->early_stopping;
    json["renormalize_logits"] = trained.search->renormalizes;
  }
  json["max_length"] = trained.model->options().max_positions;
  return json;
}

// That of a published model as it was; what else there is of the search.
StatusOr<std::string> GenerationText(const TranslationModel& trained) {
  DT_ASSIGN_OR_RETURN(const std::vector<NamedFile> files, internal::ReadKeptFiles(trained.path));
  for (const NamedFile& file : files) {
    if (file.name == internal::kGenerationFile) return file.contents;
  }
  return internal::JsonText(GenerationJson(trained), 2) + "\n";
}

Json TokenizerConfigJson(const TranslationModel& trained, const proto::DataConfig& data) {
  const TranslationTokenizer& tokenizer = *trained.tokenizer;
  const Seq2SeqOptions& options = trained.model->options();
  return {{"tokenizer_class", options.pre_norm ? "PreTrainedTokenizerFast" : "MarianTokenizer"},
          {"source_lang", data.source_language()},
          {"target_lang", data.target_language()},
          {"separate_vocabs", tokenizer.has_separate_vocabularies()},
          {"unk_token", tokenizer.Piece(tokenizer.unk_id())},
          {"eos_token", tokenizer.Piece(tokenizer.eos_id())},
          {"pad_token", "<pad>"},
          {"model_max_length", options.max_positions},
          {"clean_up_tokenization_spaces", false}};
}

// The weights as they are, and what the classes keep beside them.
class Weights {
 public:
  explicit Weights(Seq2SeqTransformer& model)
      : model_(model), tensors_(internal::HfTensors(model.parameters())) {
    const Seq2SeqOptions& options = model.options();
    arena_ = Arena::Create({}, "export");
    positions_ = Empty(*arena_, {options.max_positions, options.hidden_size}, DType::kFloat32);
    Stream stream{Device{}};
    FillSinusoids(positions_, stream);
    if (!options.output_bias) {
      bias_ = Empty(*arena_, {options.vocab_size}, DType::kFloat32);
      Zero(bias_, stream);
    }
    stream.Synchronize();
    Add("model.encoder.embed_positions.weight", positions_);
    Add("model.decoder.embed_positions.weight", positions_);
    if (!options.output_bias) Add(kBias, bias_);
    for (NamedTensor& tensor : tensors_) {
      if (tensor.name == kBias) tensor.shape = {1, options.vocab_size};
    }
    if (!options.tie_output || !options.tie_embeddings) AddTables(options);
  }

  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  void Add(const std::string& name, const Tensor& tensor) {
    tensors_.push_back(internal::HfTensor(name, tensor));
  }

  // One switch of theirs ties or unties all tables: where not all are one, each is written.
  void AddTables(const Seq2SeqOptions& options) {
    const std::string encoder = "model.encoder.embed_tokens.weight";
    const std::string decoder = "model.decoder.embed_tokens.weight";
    ParameterSet& parameters = model_.parameters();
    if (options.tie_embeddings) {
      Tensor& shared = parameters.Find("model.shared.weight")->master();
      Add(encoder, shared);
      Add(decoder, shared);
    }
    if (options.tie_output) Add("lm_head.weight", parameters.Find(decoder)->master());
  }

  Seq2SeqTransformer& model_;
  std::vector<NamedTensor> tensors_;
  std::shared_ptr<Arena> arena_;
  Tensor positions_, bias_;
};

}  // namespace

StatusOr<std::string> ExportToHuggingFace(const TranslationModel& trained,
                                          const std::string& directory,
                                          const HfExportOptions& options) {
  const Seq2SeqOptions& model = trained.model->options();
  proto::NmtConfig config;
  DT_RETURN_IF_ERROR(MergeConfigText(trained.config_text, trained.path, trained.path, config));
  const std::string class_name =
      model.pre_norm ? "PegasusForConditionalGeneration" : "MarianMTModel";
  if (options.adapter) {
    const std::string& published = config.model().pretrained();
    DT_RETURN_IF_ERROR(
        internal::WritePeftFolder({.task = "Translation",
                                   .base = published.empty() ? config.model().init() : published,
                                   .encoder = "model",
                                   .low_rank = model.low_rank,
                                   .parameters = trained.model->parameters()},
                                  directory, options.overwrite));
    return class_name;
  }
  if (model.pre_norm && !model.tie_embeddings) {
    return UsageError(
        "a pre-norm model with model.tie_embeddings=false fits no class of transformers");
  }
  if (model.layer_norm_epsilon != kTheirEpsilon) {
    LogWarning(absl::StrFormat("model.layer_norm_epsilon is %g, but transformers computes with %g",
                               model.layer_norm_epsilon, kTheirEpsilon));
  }
  const Weights weights(*trained.model);
  std::vector<internal::HfFile> files = internal::HfTokenizerFiles(
      *trained.tokenizer,
      internal::JsonText(TokenizerConfigJson(trained, config.data()), 2) + "\n");
  DT_ASSIGN_OR_RETURN(std::string generation, GenerationText(trained));
  files.emplace_back(internal::kGenerationFile, std::move(generation));
  DT_ASSIGN_OR_RETURN(Json json, KeptConfig(trained.path));
  const bool is_kept = !json.empty();
  json.update(ConfigJson(model, class_name));
  if (!is_kept) json.update(IdsJson(*trained.tokenizer));
  json["torch_dtype"] = "float32";
  files.emplace_back("config.json", internal::JsonText(json, 2) + "\n");
  DT_RETURN_IF_ERROR(
      internal::WriteHfFolder(directory, options.overwrite, weights.tensors(), files));
  return class_name;
}

}  // namespace dtrain
