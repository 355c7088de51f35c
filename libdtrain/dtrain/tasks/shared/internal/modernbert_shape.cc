// modernbert_shape.cc - windows and rotary positions, in the words of transformers 4 and 5.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/modernbert_shape.h"

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/log.h"
#include "dtrain/config/internal/shortest_decimal.h"

namespace dtrain::internal {
namespace {

using Json = nlohmann::json;

constexpr char kWhole[] = "full_attention";
constexpr char kLocal[] = "sliding_attention";

// True if the object has the key, with a value other than null.
bool Has(const Json& json, const std::string& key) {
  return json.is_object() && json.contains(key) && !json[key].is_null();
}

Status Refuse(const std::string& path, const std::string& key, const Json& value,
              const std::string& must) {
  return StorageError(
      absl::StrFormat("%s: %s is %s, must be %s", path, key, JsonText(value), must));
}

// With other values the weights are another function than the one computed here.
Status CheckFixedKeys(const Json& json, const std::string& path) {
  const std::pair<const char*, Json> fixed[] = {
      {"attention_bias", false},    {"mlp_bias", false},    {"norm_bias", false},
      {"classifier_bias", false},   {"decoder_bias", true}, {"classifier_activation", "gelu"},
      {"tie_word_embeddings", true}};
  for (const auto& [key, value] : fixed) {
    if (!Has(json, key) || json[key] == value) continue;
    return Refuse(path, key, json[key], JsonText(value) + ": dtrain computes no other ModernBERT");
  }
  return OkStatus();
}

StatusOr<int32_t> ReadPositive(const Json& json, const std::string& key, int32_t least,
                               int32_t otherwise, const std::string& path) {
  if (!Has(json, key)) return otherwise;
  const Json& value = json[key];
  if (value.is_number_integer() && value >= least && value <= 1048576) return value.get<int32_t>();
  return Refuse(path, key, value, absl::StrFormat("a number from %d to 1048576", least));
}

// The n for which layers 0, n, 2n, ... and no others see whole texts.
StatusOr<int32_t> WholeEvery(const Json& json, int32_t num_layers, const std::string& path) {
  if (!Has(json, "layer_types")) {
    return ReadPositive(json, "global_attn_every_n_layers", 1, 3, path);
  }
  const Json& types = json["layer_types"];
  const auto follows = [&](int32_t n) {
    for (int32_t i = 0; i < num_layers; ++i) {
      if (types[static_cast<size_t>(i)] != (i % n == 0 ? kWhole : kLocal)) return false;
    }
    return true;
  };
  const bool has_all = types.is_array() && types.size() == static_cast<size_t>(num_layers);
  for (int32_t n = 1; has_all && n <= num_layers; ++n) {
    if (follows(n)) return n;
  }
  return Refuse(path, "layer_types", types,
                absl::StrFormat("%d times \"%s\" or \"%s\", the first of them every n layers, "
                                "beginning with layer 0",
                                num_layers, kWhole, kLocal));
}

StatusOr<float> ReadTheta(const Json& json, const std::string& key, float otherwise,
                          const std::string& path) {
  if (!Has(json, key)) return otherwise;
  const Json& value = json[key];
  if (value.is_number() && value > 1.0 && value <= 1e12) return value.get<float>();
  return Refuse(path, key, value, "a number above 1");
}

// The theta of layers of one kind. Version 5 has rope_parameters, version 4 the key `before`.
StatusOr<float> ThetaOf(const Json& json, const std::string& kind, const std::string& before,
                        float otherwise, const std::string& path) {
  if (Has(json, "rope_scaling")) {
    return Refuse(path, "rope_scaling", json["rope_scaling"], "null: dtrain scales no positions");
  }
  if (!Has(json, "rope_parameters") || !Has(json["rope_parameters"], kind)) {
    return ReadTheta(json, before, otherwise, path);
  }
  const Json& parameters = json["rope_parameters"][kind];
  if (Has(parameters, "rope_type") && parameters["rope_type"] != "default") {
    return Refuse(path, "rope_type", parameters["rope_type"],
                  "\"default\": dtrain scales no positions");
  }
  return ReadTheta(parameters, "rope_theta", otherwise, path);
}

Status TakePooling(const Json& json, const std::string& path, proto::BertModelConfig& model) {
  constexpr char kKey[] = "classifier_pooling";
  if (model.has_mean_pooling() || !Has(json, kKey)) return OkStatus();
  if (json[kKey] != "cls" && json[kKey] != "mean") {
    return Refuse(path, kKey, json[kKey], "\"cls\" or \"mean\"");
  }
  model.set_mean_pooling(json[kKey] == "mean");
  return OkStatus();
}

}  // namespace

Status TakeModernBertShape(const Json& json, const std::string& path,
                           proto::BertModelConfig& model) {
  const proto::BertModelConfig& defaults = proto::BertModelConfig::default_instance();
  DT_RETURN_IF_ERROR(CheckFixedKeys(json, path));
  DT_ASSIGN_OR_RETURN(const int32_t window,
                      ReadPositive(json, "local_attention", 2, defaults.local_attention(), path));
  DT_ASSIGN_OR_RETURN(const int32_t every, WholeEvery(json, model.num_layers(), path));
  DT_ASSIGN_OR_RETURN(const float whole,
                      ThetaOf(json, kWhole, "global_rope_theta", defaults.whole_theta(), path));
  DT_ASSIGN_OR_RETURN(const float local,
                      ThetaOf(json, kLocal, "local_rope_theta", defaults.local_theta(), path));
  model.set_local_attention(window);
  model.set_whole_every(every);
  // A configuration that sets them stretches the positions, for longer texts.
  if (!model.has_whole_theta()) model.set_whole_theta(whole);
  if (!model.has_local_theta()) model.set_local_theta(local);
  if (model.whole_theta() != whole || model.local_theta() != local) {
    LogInfo(absl::StrFormat(
        "model.whole_theta %g and model.local_theta %g take the place of %g and %g in %s",
        model.whole_theta(), model.local_theta(), whole, local, path));
  }
  return TakePooling(json, path, model);
}

void AddModernBertKeys(const BertOptions& encoder, nlohmann::ordered_json& json) {
  const double whole = ShortestDecimal(encoder.whole_theta);
  const double local = ShortestDecimal(encoder.local_theta);
  std::vector<std::string> types;
  for (int i = 0; i < encoder.num_layers; ++i) {
    types.emplace_back(i % encoder.whole_every == 0 ? kWhole : kLocal);
  }
  json["mlp_dropout"] = ShortestDecimal(encoder.dropout);
  json["local_attention"] = encoder.local_attention;
  json["layer_types"] = types;
  json["rope_parameters"] = {{kWhole, {{"rope_theta", whole}, {"rope_type", "default"}}},
                             {kLocal, {{"rope_theta", local}, {"rope_type", "default"}}}};
  json["global_attn_every_n_layers"] = encoder.whole_every;
  json["global_rope_theta"] = whole;
  json["local_rope_theta"] = local;
  for (const char* const key : {"attention_bias", "mlp_bias", "norm_bias", "classifier_bias"}) {
    json[key] = false;
  }
}

}  // namespace dtrain::internal
