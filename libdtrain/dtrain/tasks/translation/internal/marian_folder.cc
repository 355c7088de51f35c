// marian_folder.cc - reads config.json and generation_config.json, key by key.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/internal/marian_folder.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/log.h"
#include "dtrain/base/printable.h"
#include "dtrain/formats/weight_file.h"
#include "dtrain/models/encoder_family.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/rules.pb.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"

namespace dtrain::internal {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kConfigFile[] = "config.json";

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

StatusOr<Json> ReadObject(const std::string& path) {
  DT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  Json object = ParseJson<Json>(text);
  if (!object.is_object()) return StorageError(path + ": is no JSON object; fetch the model again");
  return object;
}

// The value of a key; null counts as not there.
Json ValueOf(const Json& object, const char* key, const Json& otherwise) {
  const Json value = object.value(key, Json());
  return value.is_null() ? otherwise : value;
}

std::string Shown(const Json& value) { return Printable(JsonText(value)); }

// Keys with another value make the same weights another function.
struct OnlyValue {
  const char* key;
  Json otherwise;  // what a file without the key means
  Json only;
};

Status CheckKind(const Json& config, const std::string& path) {
  const Json type = ValueOf(config, "model_type", nullptr);
  if (type != "marian") {
    return StorageError(absl::StrFormat(
        "%s: model_type is %s; translations begin with models of the type \"marian\"", path,
        Shown(type)));
  }
  const OnlyValue only[] = {
      {"scale_embedding", false, true},   {"static_position_embeddings", true, true},
      {"normalize_before", false, false}, {"normalize_embedding", false, false},
      {"add_bias_logits", false, false},  {"add_final_layer_norm", false, false},
      {"is_encoder_decoder", true, true}};
  for (const auto& [key, otherwise, value] : only) {
    const Json found = ValueOf(config, key, otherwise);
    if (found == value) continue;
    return StorageError(absl::StrFormat("%s: %s is %s, not %s: dtrain computes no such model", path,
                                        key, Shown(found), Shown(value)));
  }
  return OkStatus();
}

// Which of the three tables are one.
Status TakeTables(const Json& config, const std::string& path, proto::ModelConfig& model) {
  constexpr char kShared[] = "share_encoder_decoder_embeddings";
  constexpr char kTied[] = "tie_word_embeddings";
  for (const char* const key : {kShared, kTied}) {
    const Json value = ValueOf(config, key, true);
    if (value.is_boolean()) continue;
    return StorageError(
        absl::StrFormat("%s: %s is %s, must be true or false", path, key, Shown(value)));
  }
  model.set_tie_embeddings(ValueOf(config, kShared, true).get<bool>());
  model.set_tie_output(ValueOf(config, kTied, true).get<bool>());
  if (model.tie_output() || !model.tie_embeddings()) return OkStatus();
  return StorageError(
      absl::StrFormat("%s: %s is false, but %s is true: dtrain computes no such "
                      "model",
                      path, kTied, kShared));
}

// A size in config.json. Another key must have the same value, unless it is "".
struct SizeKey {
  const char* key;
  const char* same;
  const char* field;  // of ModelConfig
  int32_t otherwise;  // of MarianConfig in transformers
};

Status TakeSize(const Json& config, const SizeKey& size, const std::string& path,
                proto::ModelConfig& model) {
  const google::protobuf::FieldDescriptor* const field =
      model.GetDescriptor()->FindFieldByName(size.field);
  const proto::Rules& rules = field->options().GetExtension(proto::rules);
  const Json value = ValueOf(config, size.key, size.otherwise);
  if (!value.is_number_integer() || value < rules.min() || value > rules.max()) {
    return StorageError(absl::StrFormat("%s: %s is %s, must be %.0f to %.0f", path, size.key,
                                        Shown(value), rules.min(), rules.max()));
  }
  if (*size.same != '\0') {
    const Json other = ValueOf(config, size.same, size.otherwise);
    if (other != value) {
      return StorageError(absl::StrFormat(
          "%s: %s is %s, but %s is %s: dtrain's encoders and decoders have layers of one size",
          path, size.key, Shown(value), size.same, Shown(other)));
    }
  }
  model.GetReflection()->SetInt32(&model, field, value.get<int32_t>());
  return OkStatus();
}

Status TakeShape(const Json& config, const std::string& path, proto::ModelConfig& model) {
  const SizeKey sizes[] = {{"d_model", "", "hidden_size", 1024},
                           {"encoder_layers", "", "encoder_layers", 12},
                           {"decoder_layers", "", "decoder_layers", 12},
                           {"encoder_attention_heads", "decoder_attention_heads", "num_heads", 16},
                           {"encoder_ffn_dim", "decoder_ffn_dim", "ffn_size", 4096},
                           {"max_position_embeddings", "", "max_positions", 1024}};
  for (const SizeKey& size : sizes) DT_RETURN_IF_ERROR(TakeSize(config, size, path, model));
  if (model.hidden_size() % model.num_heads() != 0 || model.hidden_size() % 2 != 0) {
    return StorageError(absl::StrFormat("%s: d_model %d is no even multiple of the %d heads", path,
                                        model.hidden_size(), model.num_heads()));
  }
  model.set_norm(proto::ModelConfig::post);
  model.set_layer_norm_epsilon(1e-5f);  // no configuration of the class can change it
  model.set_output_bias(true);
  return TakeTables(config, path, model);
}

Status TakeActivation(const Json& config, const std::string& path, proto::ModelConfig& model) {
  constexpr char kKey[] = "activation_function";
  const std::pair<const char*, proto::ModelConfig::Activation> known[] = {
      {"swish", proto::ModelConfig::swish},
      {"silu", proto::ModelConfig::swish},
      {"relu", proto::ModelConfig::relu},
      {"gelu", proto::ModelConfig::gelu_erf},
      {"gelu_new", proto::ModelConfig::gelu_tanh},
      {"gelu_pytorch_tanh", proto::ModelConfig::gelu_tanh}};
  const Json name = ValueOf(config, kKey, "gelu");
  for (const auto& [known_name, activation] : known) {
    if (name != known_name) continue;
    model.set_activation(activation);
    return OkStatus();
  }
  return StorageError(absl::StrFormat(
      "%s: %s is %s; it may be swish, silu, relu, gelu, gelu_new or gelu_pytorch_tanh", path, kKey,
      Shown(name)));
}

Status TakeDropout(const Json& config, const std::string& path, proto::ModelConfig& model) {
  const std::pair<const char*, float> rates[] = {
      {"dropout", 0.1f}, {"attention_dropout", 0.0f}, {"activation_dropout", 0.0f}};
  for (const auto& [key, otherwise] : rates) {
    const google::protobuf::FieldDescriptor* const field =
        model.GetDescriptor()->FindFieldByName(key);
    if (model.GetReflection()->HasField(model, field)) continue;
    const Json value = ValueOf(config, key, otherwise);
    if (!value.is_number() || value < 0.0 || value >= 1.0) {
      return StorageError(
          absl::StrFormat("%s: %s is %s, must be at least 0 and below 1", path, key, Shown(value)));
    }
    model.GetReflection()->SetFloat(&model, field, value.get<float>());
  }
  return OkStatus();
}

// Ids and the numbers of pieces are the tokenizer's, whichever the files say.
Status CheckVocabulary(const Json& config, const std::string& folder, proto::NmtConfig& nmt) {
  const std::string path = folder + "/" + kConfigFile;
  const StatusOr<TranslationTokenizer> tokenizer = TranslationTokenizer::Load(folder);
  if (!tokenizer.ok()) return StorageError(tokenizer.status().message());
  const Json size = ValueOf(config, "vocab_size", 58101);
  const std::pair<const char*, int32_t> same[] = {
      {"vocab_size", tokenizer->vocab_size(MarianSide::kSource)},
      {"decoder_vocab_size", tokenizer->vocab_size(MarianSide::kTarget)},
      {"eos_token_id", tokenizer->eos_id()},
      {"pad_token_id", tokenizer->pad_id()},
      {"decoder_start_token_id", tokenizer->pad_id()}};
  for (const auto& [key, ours] : same) {
    const Json otherwise = std::string_view(key) == "decoder_vocab_size" ? size : Json(ours);
    const Json value = ValueOf(config, key, otherwise);
    if (value == ours) continue;
    return StorageError(absl::StrFormat("%s: %s is %s, but by the tokenizer of the folder it is %d",
                                        path, key, Shown(value), ours));
  }
  if (tokenizer->has_separate_vocabularies() && nmt.model().tie_embeddings()) {
    return StorageError(absl::StrFormat(
        "%s: share_encoder_decoder_embeddings is true, but each language has a vocabulary of its "
        "own (target_vocab.json)",
        path));
  }
  nmt.mutable_data()->set_vocab_size(tokenizer->vocab_size());
  return OkStatus();
}

// Older folders have these keys in config.json.
Status TakeSearch(const Json& config, const std::string& folder, proto::TrainerConfig& trainer) {
  Json generation = config;
  std::string path = folder + "/" + kConfigFile;
  if (Exists(fs::path(folder) / kGenerationFile)) {
    path = folder + "/" + kGenerationFile;
    DT_ASSIGN_OR_RETURN(generation, ReadObject(path));
  }
  const auto wrong = [&](const char* key, const Json& value, const char* allowed) {
    return StorageError(
        absl::StrFormat("%s: %s is %s, must be %s", path, key, Shown(value), allowed));
  };
  if (!trainer.has_beam_rules()) trainer.set_beam_rules(proto::TrainerConfig::transformers);
  const Json beams = ValueOf(generation, "num_beams", trainer.beam_size());
  if (!beams.is_number_integer() || beams < 1 || beams > 512) {
    return wrong("num_beams", beams, "1 to 512");
  }
  if (!trainer.has_beam_size()) trainer.set_beam_size(beams.get<int32_t>());
  const Json penalty = ValueOf(generation, "length_penalty", 1.0);
  if (!penalty.is_number() || penalty < 0.0 || penalty > 10.0) {
    return wrong("length_penalty", penalty, "0 to 10");
  }
  if (!trainer.has_beam_alpha()) trainer.set_beam_alpha(penalty.get<float>());
  const Json early = ValueOf(generation, "early_stopping", false);
  if (!early.is_boolean()) return wrong("early_stopping", early, "true or false");
  if (!trainer.has_beam_early_stopping()) trainer.set_beam_early_stopping(early.get<bool>());
  const Json renormalize = ValueOf(generation, "renormalize_logits", false);
  if (!renormalize.is_boolean()) return wrong("renormalize_logits", renormalize, "true or false");
  if (!trainer.has_beam_renormalize()) trainer.set_beam_renormalize(renormalize.get<bool>());
  return OkStatus();
}

// Marian itself and CTranslate2 begin a translation with zeros. OPUS-MT's rows of <pad> are zero,
// so that transformers does the same. They stay so, unless transformers has trained the row.
Status TakePad(const Json& config, const std::string& folder, proto::ModelConfig& model) {
  if (model.has_learned_pad()) return OkStatus();
  DT_ASSIGN_OR_RETURN(const WeightFile weights, WeightFile::Open(folder));
  const auto row = ValueOf(config, "pad_token_id", 58100).get<size_t>();
  for (const WeightTensor& weight : weights.tensors()) {
    const NamedTensor& tensor = weight.tensor;
    const bool is_table =
        tensor.name == "model.shared.weight" || tensor.name.ends_with(".embed_tokens.weight");
    if (!is_table || tensor.shape.empty()) continue;
    const auto rows = static_cast<size_t>(tensor.shape[0]);
    if (row >= rows) continue;
    const size_t bytes = tensor.data.size() / rows;
    const bool is_learned =
        std::ranges::any_of(tensor.data.subspan(row * bytes, bytes),
                            [](std::byte byte) { return byte != std::byte{0}; });
    model.set_learned_pad(model.learned_pad() || is_learned);
  }
  return OkStatus();
}

// Names of weights and what messages call the model; all else of a family is of encoders.
const EncoderFamily& MarianNames() {
  static const EncoderFamily names = {.name = "marian",
                                      .title = "Marian model",
                                      .class_name = "Marian",
                                      .encoder = "model",
                                      .layers = "encoder.layers"};
  return names;
}

PretrainedOptions WeightOptions() {
  // Without a bias it is zero.
  return {.family = &MarianNames(), .may_be_new = {"final_logits_bias"}};
}

// Copies of shared tables, and positions, which are computed, are no surprise.
StatusOr<PretrainedReport> WithoutCopies(StatusOr<PretrainedReport> report) {
  if (!report.ok()) return report;
  std::erase_if(report->unused, [](const std::string& name) {
    return name == "lm_head.weight" || name.ends_with(".embed_tokens.weight") ||
           name.ends_with(".embed_positions.weight");
  });
  return report;
}

}  // namespace

bool IsPublishedFolder(const std::string& path) {
  return Exists(fs::path(path) / kConfigFile) && !Exists(fs::path(path) / "config.textproto");
}

bool IsMarianFolder(const std::string& path) {
  if (!IsPublishedFolder(path)) return false;
  const StatusOr<Json> config = ReadObject(path + "/" + kConfigFile);
  return config.ok() && ValueOf(*config, "model_type", nullptr) == "marian";
}

Status ReadMarianFolder(const std::string& folder, proto::NmtConfig& config) {
  const std::string path = folder + "/" + kConfigFile;
  if (!Exists(folder)) {
    return UsageError(folder +
                      ": no such folder; check model.pretrained, which names a folder on this "
                      "machine, not a model of the Hugging Face hub: download its folder");
  }
  if (!Exists(path)) {
    return UsageError(folder +
                      ": holds no config.json, so it is no published model; a run of "
                      "nmt_train is given by model.init");
  }
  DT_ASSIGN_OR_RETURN(const Json object, ReadObject(path));
  DT_RETURN_IF_ERROR(CheckKind(object, path));
  DT_RETURN_IF_ERROR(TakeShape(object, path, *config.mutable_model()));
  DT_RETURN_IF_ERROR(TakeActivation(object, path, *config.mutable_model()));
  DT_RETURN_IF_ERROR(TakeDropout(object, path, *config.mutable_model()));
  DT_RETURN_IF_ERROR(CheckVocabulary(object, folder, config));
  DT_RETURN_IF_ERROR(TakePad(object, folder, *config.mutable_model()));
  return TakeSearch(object, folder, *config.mutable_trainer());
}

StatusOr<PretrainedReport> LoadMarianWeights(const std::string& folder, ParameterSet& parameters) {
  return WithoutCopies(LoadPretrainedWeights(folder, parameters, WeightOptions()));
}

StatusOr<PretrainedReport> MatchMarianWeights(const std::string& folder, ParameterSet& parameters) {
  return WithoutCopies(MatchPretrainedWeights(folder, parameters, WeightOptions()));
}

StatusOr<std::vector<NamedFile>> ReadKeptFiles(const std::string& folder) {
  const char* const config = IsPublishedFolder(folder) ? kConfigFile : kKeptConfigFile;
  std::vector<NamedFile> files;
  for (const auto& [from, name] :
       {std::pair(config, kKeptConfigFile), std::pair(kGenerationFile, kGenerationFile)}) {
    const std::string path = folder + "/" + from;
    if (!Exists(path)) continue;
    DT_ASSIGN_OR_RETURN(std::string contents, ReadWholeFile(path));
    files.push_back({name, std::move(contents)});
  }
  return files;
}

}  // namespace dtrain::internal
