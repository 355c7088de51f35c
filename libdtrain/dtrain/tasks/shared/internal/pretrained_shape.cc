// pretrained_shape.cc - reads JSON of Hugging Face and google-research/bert, and dtrain's own.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/pretrained_shape.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/log.h"
#include "dtrain/base/status.h"
#include "dtrain/bert.pb.h"
#include "dtrain/formats/weight_file.h"
#include "dtrain/models/encoder_family.h"
#include "dtrain/rules.pb.h"
#include "dtrain/run.pb.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/low_rank.h"
#include "dtrain/tasks/shared/internal/modernbert_shape.h"
#include "dtrain/tasks/shared/internal/vocabulary_file.h"
#include "dtrain/tokenizers/text_tokenizer.h"
#include "nlohmann/json.hpp"

namespace dtrain::internal {
namespace {

namespace fs = std::filesystem;

Status SetActivation(const std::string& name, std::string_view key, const std::string& path,
                     proto::BertModelConfig& model) {
  if (name == "gelu") {
    model.set_activation(proto::ModelConfig::gelu_erf);
  } else if (name == "gelu_new" || name == "gelu_pytorch_tanh") {
    model.set_activation(proto::ModelConfig::gelu_tanh);
  } else if (name == "relu") {
    model.set_activation(proto::ModelConfig::relu);
  } else {
    return StorageError(
        absl::StrFormat("%s: %s is \"%s\"; it may be gelu, gelu_new, gelu_pytorch_tanh or relu",
                        path, ToAbsl(key), name));
  }
  return OkStatus();
}

StatusOr<nlohmann::json> ReadJsonObject(const std::string& path) {
  DT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  nlohmann::json json = internal::ParseJson<nlohmann::json>(text);
  if (!json.is_object()) return StorageError(path + ": is no JSON object; fetch the model again");
  return json;
}

// A size in config.json.
struct JsonSize {
  std::string_view key;  // "" where the family has none
  const char* field;     // of BertModelConfig
  int32_t otherwise;     // where neither the file nor the configuration has it
};

// Sets the field, within the limits of the configuration's own.
Status TakeSize(const nlohmann::json& json, const JsonSize& size, const std::string& path,
                proto::BertModelConfig& model) {
  const google::protobuf::FieldDescriptor* const field =
      model.GetDescriptor()->FindFieldByName(size.field);
  const google::protobuf::Reflection& reflection = *model.GetReflection();
  if (size.key.empty() || !json.contains(size.key)) {
    const bool is_given = !size.key.empty() && reflection.HasField(model, field);
    if (!is_given) reflection.SetInt32(&model, field, size.otherwise);
    return OkStatus();
  }
  const nlohmann::json& value = json[std::string(size.key)];
  const proto::Rules& rules = field->options().GetExtension(proto::rules);
  const double least = std::max(rules.min(), 1.0);
  if (value.is_number_integer() && value >= least && value <= rules.max()) {
    reflection.SetInt32(&model, field, value.get<int32_t>());
    return OkStatus();
  }
  return StorageError(absl::StrFormat("%s: %s is %s, must be %.0f to %.0f", path, ToAbsl(size.key),
                                      internal::JsonText(value), least, rules.max()));
}

Status TakeSizes(const nlohmann::json& json, const EncoderFamily& family, const std::string& path,
                 proto::BertModelConfig& model) {
  const EncoderKeys& keys = family.keys;
  const EncoderDefaults& absent = family.defaults;
  const JsonSize sizes[] = {{keys.num_layers, "num_layers", absent.num_layers},
                            {keys.hidden_size, "hidden_size", absent.hidden_size},
                            {keys.ffn_size, "ffn_size", absent.ffn_size},
                            {keys.num_heads, "num_heads", absent.num_heads},
                            {keys.embedding_size, "embedding_size", absent.embedding_size},
                            {keys.type_vocab_size, "type_vocab_size", absent.type_vocab_size},
                            {"max_position_embeddings", "max_positions", absent.position_rows}};
  for (const JsonSize& size : sizes) DT_RETURN_IF_ERROR(TakeSize(json, size, path, model));
  if (model.hidden_size() % model.num_heads() != 0) {
    return StorageError(absl::StrFormat("%s: %s %d is no multiple of %s %d", path,
                                        ToAbsl(keys.hidden_size), model.hidden_size(),
                                        ToAbsl(keys.num_heads), model.num_heads()));
  }
  const int32_t head_dim = model.hidden_size() / model.num_heads();
  if (family.form.has_rotary_positions && head_dim % 2 != 0) {
    return StorageError(
        absl::StrFormat("%s: %s %d and %s %d make heads of %d, but rotary positions turn pairs",
                        path, ToAbsl(keys.hidden_size), model.hidden_size(), ToAbsl(keys.num_heads),
                        model.num_heads(), head_dim));
  }
  return OkStatus();
}

// Rows of the position table that belong to no position.
Status TakePositionOffset(const nlohmann::json& json, const EncoderFamily& family,
                          const std::string& path, proto::BertModelConfig& model) {
  model.set_position_offset(0);
  if (!family.positions_follow_padding) return OkStatus();
  constexpr char kKey[] = "pad_token_id";
  const nlohmann::json value = json.value(kKey, nlohmann::json(1));
  const int32_t rows = model.max_positions();
  if (!value.is_number_integer() || value < 0 || value > rows - 4) {
    return StorageError(absl::StrFormat(
        "%s: %s is %s; texts begin behind that row of the %d positions, and need some", path, kKey,
        internal::JsonText(value), rows));
  }
  model.set_position_offset(value.get<int32_t>() + 1);
  model.set_max_positions(rows - model.position_offset());
  return OkStatus();
}

Status TakeEpsilon(const nlohmann::json& json, const EncoderFamily& family, const std::string& path,
                   proto::BertModelConfig& model) {
  const std::string key(family.keys.layer_norm_epsilon);
  if (key.empty() || !model.has_layer_norm_epsilon()) {
    model.set_layer_norm_epsilon(family.defaults.layer_norm_epsilon);
  }
  if (key.empty() || !json.contains(key)) return OkStatus();
  const proto::Rules& rules = model.GetDescriptor()
                                  ->FindFieldByName("layer_norm_epsilon")
                                  ->options()
                                  .GetExtension(proto::rules);
  const nlohmann::json& value = json[key];
  const double given = value.is_number() ? value.get<double>() : 0.0;
  // As a float it may be 0.
  const float epsilon = given <= rules.max() ? static_cast<float>(given) : 0.0f;
  if (epsilon > static_cast<float>(rules.above())) {
    model.set_layer_norm_epsilon(epsilon);
    return OkStatus();
  }
  return StorageError(absl::StrFormat("%s: %s is %s, must be above %g and at most %g", path, key,
                                      internal::JsonText(value), rules.above(), rules.max()));
}

// A vocabulary says it better: the table may have been padded.
Status ReadVocabularySize(const std::string& path, proto::BertModelConfig& model) {
  DT_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonObject(path));
  return TakeSize(json, {"vocab_size", "vocab_size", 0}, path, model);
}

// The family of a config.json. Null, which stands for the default, counts as not there.
StatusOr<const EncoderFamily*> FamilyIn(const nlohmann::json& json, const std::string& path) {
  const nlohmann::json type = json.value("model_type", nlohmann::json());
  const EncoderFamily* const family =
      type.is_null() ? &BertFamily() : FindEncoderFamily(type.is_string() ? std::string(type) : "");
  if (family == nullptr) {
    std::vector<std::string> names;
    for (const EncoderFamily* each : EncoderFamilies()) names.emplace_back(each->name);
    return StorageError(
        absl::StrFormat("%s: model_type is %s; dtrain loads %s, and for nmt_train "
                        "marian",
                        path, internal::JsonText(type), absl::StrJoin(names, ", ")));
  }
  // With others the same weights are another function than the encoder here computes.
  const std::pair<const char*, nlohmann::json> only[] = {{"position_embedding_type", "absolute"},
                                                         {"is_decoder", false}};
  for (const auto& [key, value] : only) {
    if (!json.contains(key) || json[key].is_null() || json[key] == value) continue;
    return StorageError(absl::StrFormat("%s: %s is %s, not %s: dtrain computes no such encoder",
                                        path, key, internal::JsonText(json[key]),
                                        internal::JsonText(value)));
  }
  return family;
}

// What a configuration leaves open and the family has other defaults for than BERT.
void TakeFamilyDefaults(const EncoderFamily& family, proto::BertModelConfig& model) {
  const EncoderDefaults& defaults = family.defaults;
  if (!model.has_layer_norm_epsilon()) model.set_layer_norm_epsilon(defaults.layer_norm_epsilon);
  if (!model.has_dropout()) model.set_dropout(defaults.dropout);
  if (!model.has_attention_dropout()) model.set_attention_dropout(defaults.dropout);
  if (!model.has_classifier_dropout()) model.set_classifier_dropout(defaults.dropout);
  if (family.keys.type_vocab_size.empty()) model.set_type_vocab_size(0);
  // Behind the row of <pad>, whose id is 1 in RoBERTa's vocabularies.
  if (family.positions_follow_padding && !model.has_position_offset()) model.set_position_offset(2);
}

// The configuration's own number of positions, where it need not be that of the weights: there is
// no table of rotary positions in them.
std::optional<int32_t> OwnPositions(const proto::BertModelConfig& model) {
  if (!FamilyOf(model).form.has_rotary_positions || !model.has_max_positions()) return std::nullopt;
  return model.max_positions();
}

Status ReadShape(const std::string& path, proto::BertModelConfig& model) {
  DT_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonObject(path));
  DT_ASSIGN_OR_RETURN(const EncoderFamily* const family, FamilyIn(json, path));
  SetFamily(*family, model);
  const std::optional<int32_t> longer = OwnPositions(model);
  DT_RETURN_IF_ERROR(TakeSizes(json, *family, path, model));
  if (longer) model.set_max_positions(*longer);
  DT_RETURN_IF_ERROR(TakePositionOffset(json, *family, path, model));
  DT_RETURN_IF_ERROR(TakeEpsilon(json, *family, path, model));
  TakeFamilyDefaults(*family, model);
  if (family->form.has_rotary_positions) {
    DT_RETURN_IF_ERROR(TakeModernBertShape(json, path, model));
  }
  const std::string activation(family->keys.activation);
  if (json.contains(activation) && json[activation].is_string()) {
    DT_RETURN_IF_ERROR(SetActivation(json[activation], activation, path, model));
  }
  LogInfo(absl::StrFormat("%s: %s, %d layers of %d, %d heads, ffn %d", path, ToAbsl(family->title),
                          model.num_layers(), model.hidden_size(), model.num_heads(),
                          model.ffn_size()));
  return OkStatus();
}

// Null, which stands for the tokenizer's own default, counts as not there.
StatusOr<std::optional<bool>> ReadSwitch(const nlohmann::json& json, const char* key,
                                         const std::string& path) {
  if (!json.contains(key) || json[key].is_null()) return std::nullopt;
  if (json[key].is_boolean()) return json[key].get<bool>();
  return StorageError(absl::StrFormat("%s: %s is %s, must be true or false", path, key,
                                      internal::JsonText(json[key])));
}

// How the vocabulary was trained, where the configuration does not say.
Status ReadTokenizer(const std::string& path, proto::Tokenization& data) {
  DT_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonObject(path));
  DT_ASSIGN_OR_RETURN(const std::optional<bool> lower, ReadSwitch(json, "do_lower_case", path));
  DT_ASSIGN_OR_RETURN(const std::optional<bool> strip, ReadSwitch(json, "strip_accents", path));
  if (lower && !data.has_lower_case()) data.set_lower_case(*lower);
  if (strip && !data.has_accents()) {
    data.set_accents(*strip ? proto::Tokenization::strip : proto::Tokenization::keep);
  }
  if (json.value("dtrain_tokenizer", nlohmann::json()) == "google" && !data.has_tokenizer()) {
    data.set_tokenizer(proto::Tokenization::google);
  }
  return OkStatus();
}

// The same from a tokenizer.json with a WordPiece model, where nothing else says it.
Status ReadNormalizer(const std::string& vocabulary, proto::Tokenization& data) {
  std::error_code error;
  if (!vocabulary.ends_with(".json") || !fs::exists(vocabulary, error)) return OkStatus();
  DT_ASSIGN_OR_RETURN(const bool is_word_piece, HoldsWordPiece(vocabulary));
  if (!is_word_piece) return OkStatus();
  DT_ASSIGN_OR_RETURN(const WordPieceSettings settings, ReadWordPieceSettings(vocabulary));
  if (settings.lower_case && !data.has_lower_case()) data.set_lower_case(*settings.lower_case);
  if (settings.strip_accents && !data.has_accents()) {
    data.set_accents(*settings.strip_accents ? proto::Tokenization::strip
                                             : proto::Tokenization::keep);
  }
  return OkStatus();
}

// Keeps the first error and drops the warnings, which are about unknown fields.
class FirstParseError final : public google::protobuf::io::ErrorCollector {
 public:
  const std::string& text() const { return text_; }
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrFormat("%d:%d: %s", line + 1, column + 1, message);
  }

 private:
  std::string text_;
};

// Reads the sections `model` and `data` of the configuration in a checkpoint, which any program of
// BERT may have written.
StatusOr<proto::BertShapeConfig> ReadCheckpointConfig(const std::string& path) {
  DT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  google::protobuf::TextFormat::Parser parser;
  FirstParseError error;
  parser.RecordErrorsTo(&error);
  parser.AllowUnknownField(true);
  proto::BertShapeConfig config;
  if (parser.ParseFromString(text, &config)) return config;
  return StorageError(
      absl::StrFormat("%s:%s; give weights beside a configuration that a program of BERT wrote",
                      path, error.text()));
}

void TakeShape(const proto::BertModelConfig& from, proto::BertModelConfig& model) {
  model.set_num_layers(from.num_layers());
  model.set_hidden_size(from.hidden_size());
  model.set_ffn_size(from.ffn_size());
  model.set_num_heads(from.num_heads());
  model.set_activation(from.activation());
  model.set_layer_norm_epsilon(from.layer_norm_epsilon());
  model.set_family(from.family());
  model.set_max_positions(OwnPositions(model).value_or(from.max_positions()));
  model.set_type_vocab_size(from.type_vocab_size());
  model.set_vocab_size(from.vocab_size());
  model.set_embedding_size(from.embedding_size());
  model.set_position_offset(from.position_offset());
  model.set_local_attention(from.local_attention());
  model.set_whole_every(from.whole_every());
  if (!model.has_local_theta()) model.set_local_theta(from.local_theta());
  if (!model.has_whole_theta()) model.set_whole_theta(from.whole_theta());
  if (!model.has_mean_pooling()) model.set_mean_pooling(from.mean_pooling());
  TakeFamilyDefaults(FamilyOf(model), model);
}

// Shape and tokenizer of a model that dtrain trained.
Status TakeCheckpointConfig(const std::string& path, proto::BertModelConfig& model,
                            proto::Tokenization& data) {
  DT_ASSIGN_OR_RETURN(const proto::BertShapeConfig theirs, ReadCheckpointConfig(path));
  TakeShape(theirs.model(), model);
  if (!data.has_lower_case()) data.set_lower_case(theirs.data().lower_case());
  if (!data.has_accents()) data.set_accents(theirs.data().accents());
  if (!data.has_tokenizer()) data.set_tokenizer(theirs.data().tokenizer());
  LogInfo(absl::StrFormat(
      "%s: %d layers of %d, %d heads, ffn %d; lower_case %s, accents %s, "
      "tokenizer %s",
      path, model.num_layers(), model.hidden_size(), model.num_heads(), model.ffn_size(),
      data.lower_case() ? "true" : "false", proto::Tokenization::Accents_Name(data.accents()),
      proto::Tokenization::Behavior_Name(data.tokenizer())));
  return OkStatus();
}

constexpr const char* kJson[] = {"config.json", "bert_config.json"};
constexpr char kOwn[] = "config.textproto";

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

fs::path VocabularyIn(const fs::path& folder) { return VocabularyPathIn(folder.string()); }

// From the files in the folder of the weights. Whether one of them has it.
StatusOr<bool> TakeShapeIn(const fs::path& folder, const PretrainedSettings& settings) {
  proto::BertModelConfig& model = settings.model;
  for (const char* name : kJson) {
    const std::string file = (folder / name).string();
    if (!Exists(file)) continue;
    DT_RETURN_IF_ERROR(ReadShape(file, model));
    const std::string& vocabulary = settings.vocabulary;
    const bool has_pieces =
        Exists(vocabulary.empty() ? VocabularyIn(folder) : fs::path(vocabulary));
    if (!has_pieces && model.vocab_size() == 0) DT_RETURN_IF_ERROR(ReadVocabularySize(file, model));
    return true;
  }
  const std::string own = (folder / kOwn).string();
  if (!Exists(own)) return false;
  DT_RETURN_IF_ERROR(TakeCheckpointConfig(own, model, settings.tokenization));
  return true;
}

// The folder that the files beside the weights are in. Of what is missing only its name says that
// it was a file: a folder's own parent may be a run, with another model's files.
fs::path FolderOf(const std::string& weights) {
  std::error_code error;
  fs::path path = weights;
  if (fs::is_directory(path, error)) return path;
  constexpr const char* kFiles[] = {".safetensors", ".json", ".bin",  ".pt",
                                    ".pth",         ".ckpt", ".index"};
  const std::string extension = path.extension();
  const bool is_file = Exists(path) || Exists(weights + ".index") ||
                       std::ranges::find(kFiles, extension) != std::end(kFiles);
  return is_file ? path.parent_path() : path;
}

// Neither weights nor what says their shape.
bool IsGone(const std::string& weights) {
  const fs::path folder = FolderOf(weights);
  return !Exists(folder / kJson[0]) && !Exists(folder / kJson[1]) && !Exists(folder / kOwn) &&
         !FindWeightFile(weights).ok();
}

// In a folder of checkpoints: the link to the newest first, which is there as long as it stays the
// newest, and the newest itself where links cannot be made.
void AddCheckpointsOf(const fs::path& folder, std::vector<fs::path>& places) {
  places.push_back(folder / "last");
  const std::vector<int64_t> steps = ListCheckpoints(folder.string());
  if (!steps.empty()) places.push_back(folder / CheckpointName(steps.back()));
}

// The folder of the checkpoint that the run goes on from. Empty where the run begins.
fs::path CheckpointBefore(const PretrainedSettings& settings) {
  const fs::path resume = settings.run.resume();
  const fs::path run_dir = settings.run.run_dir();
  std::vector<fs::path> places;
  if (resume == "auto" && !run_dir.empty()) {
    AddCheckpointsOf(run_dir / "ckpt", places);
    for (const uint64_t seed : settings.seeds) {
      AddCheckpointsOf(run_dir / ("seed-" + std::to_string(seed)) / "ckpt", places);
    }
  } else if (resume != "auto" && resume != "never") {
    places.push_back(resume);
    AddCheckpointsOf(resume / "ckpt", places);
    AddCheckpointsOf(resume, places);
  }
  for (const fs::path& place : places) {
    if (Exists(place / kOwn) && Exists(VocabularyIn(place))) return place;
  }
  return {};
}

// Before a model is built for weights that cannot be read.
Status CheckWeightsAreThere(const PretrainedSettings& settings) {
  const std::string& path = settings.model.pretrained();
  if (path.empty()) return OkStatus();
  const fs::path own = fs::path(path) / "ckpt";
  if (Exists(own / "last") || !ListCheckpoints(own).empty()) {
    return UsageError(
        absl::StrFormat("%s: is a run directory; set model.pretrained to %s, or to a folder that "
                        "dtrain export-hf writes",
                        path, (own / "last").string()));
  }
  // Each program marks its checkpoints by such a file.
  for (const auto& [mark, program] :
       {std::pair("vocab.spm", "nmt_train"), std::pair("tokens.txt", "lm_train")}) {
    if (!Exists(FolderOf(path) / mark) || !Exists(FolderOf(path) / kOwn)) continue;
    return UsageError(absl::StrFormat(
        "model.pretrained: %s is a checkpoint of %s, whose model is no BERT; give one of a program "
        "of BERT, or a BERT of Hugging Face's",
        path, program));
  }
  if (!IsGone(path) || !CheckpointBefore(settings).empty()) return OkStatus();
  std::error_code error;
  if (fs::status(path, error).type() == fs::file_type::not_found) {
    return UsageError(path +
                      ": no such file or folder; check model.pretrained, which names files on "
                      "this machine, not a model of the Hugging Face hub: download its folder");
  }
  return Annotate(FindWeightFile(path).status(), "model.pretrained");
}

// Weights know pieces by their numbers. Words of one's own in place of [unusedN] are as good as
// these.
Status WarnOfOtherPieces(const std::string& theirs, const std::string& ours) {
  DT_ASSIGN_OR_RETURN(const bool is_same, IsSameVocabulary(theirs, ours));
  if (is_same) return OkStatus();
  DT_ASSIGN_OR_RETURN(const NamedFile there, ReadVocabularyFile(theirs));
  DT_ASSIGN_OR_RETURN(const NamedFile here, ReadVocabularyFile(ours));
  if (there.name != kWordPieceFile || here.name != kWordPieceFile) {
    LogWarning(absl::StrFormat(
        "data.vocabulary: %s is another tokenizer than that of the weights, %s; leave it out for "
        "theirs",
        ours, theirs));
    return OkStatus();
  }
  const std::vector<std::string> pieces =
      absl::StrSplit(absl::StripSuffix(there.contents, "\n"), '\n');
  const std::vector<std::string> others =
      absl::StrSplit(absl::StripSuffix(here.contents, "\n"), '\n');
  int64_t count = 0;
  size_t first = 0;
  for (size_t i = 0; i < std::min(pieces.size(), others.size()); ++i) {
    if (pieces[i] == others[i] || pieces[i].starts_with("[unused")) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return OkStatus();
  LogWarning(absl::StrFormat(
      "%d pieces of data.vocabulary are others than those of the weights, line %d '%s' in %s and "
      "'%s' in %s: the weights take them for these; leave data.vocabulary out for theirs",
      count, first + 1, others[first], ours, pieces[first], theirs));
  return OkStatus();
}

}  // namespace

Status LoadPretrainedShape(const PretrainedSettings& settings) {
  DT_RETURN_IF_ERROR(CheckWeightsAreThere(settings));
  DT_RETURN_IF_ERROR(TryLoadPretrainedShape(settings).status());
  const std::string& path = settings.model.pretrained();
  if (path.empty() || !settings.vocabulary.empty()) return OkStatus();
  return UsageError(absl::StrFormat(
      "%s: beside the weights there is no tokenizer.json or vocab.txt, and no vocab.json with a "
      "merges.txt; set data.vocabulary",
      path));
}

StatusOr<bool> TryLoadPretrainedShape(const PretrainedSettings& settings) {
  const std::string path = settings.model.pretrained();
  if (path.empty()) {
    TakeFamilyDefaults(FamilyOf(settings.model), settings.model);
    return false;
  }
  fs::path folder = FolderOf(path);
  const fs::path before = IsGone(path) ? CheckpointBefore(settings) : fs::path();
  if (!before.empty()) {
    LogInfo(
        absl::StrFormat("%s is gone: shape and vocabulary are those of %s", path, before.string()));
    folder = before;
    if (!Exists(settings.vocabulary)) settings.vocabulary.clear();
  }
  DT_ASSIGN_OR_RETURN(const bool found, TakeShapeIn(folder, settings));
  const std::string tokenizer = (folder / "tokenizer_config.json").string();
  if (Exists(tokenizer)) {
    DT_RETURN_IF_ERROR(ReadTokenizer(tokenizer, settings.tokenization));
  }
  const std::string vocabulary = VocabularyIn(folder).string();
  DT_RETURN_IF_ERROR(ReadNormalizer(vocabulary, settings.tokenization));
  if (settings.vocabulary.empty() && Exists(vocabulary)) {
    settings.vocabulary = vocabulary;
  } else if (Exists(vocabulary) && Exists(settings.vocabulary)) {
    DT_RETURN_IF_ERROR(WarnOfOtherPieces(vocabulary, settings.vocabulary));
  }
  if (settings.max_length > settings.model.max_positions()) {
    return UsageError(absl::StrFormat("data.max_length (%d) exceeds the %d positions of %s",
                                      settings.max_length, settings.model.max_positions(), path));
  }
  DT_RETURN_IF_ERROR(CheckTargets(EncoderOptionsOf(settings.model)));
  return found;
}

}  // namespace dtrain::internal
