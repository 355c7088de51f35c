// json_text.cc - the only place where nlohmann's parser and printer are compiled for common use.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/internal/json_text.h"

namespace dtrain::internal {

template <typename Json>
Json ParseJson(std::string_view text) {
  return Json::parse(text.data(), text.data() + text.size(), nullptr, /*allow_exceptions=*/false);
}

template <typename Json>
Json ParseJsonOrThrow(std::string_view text) {
  return Json::parse(text.data(), text.data() + text.size());
}

template <typename Json>
std::string JsonText(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

template nlohmann::json ParseJson(std::string_view text);
template nlohmann::ordered_json ParseJson(std::string_view text);
template nlohmann::json ParseJsonOrThrow(std::string_view text);
template nlohmann::ordered_json ParseJsonOrThrow(std::string_view text);
template std::string JsonText(const nlohmann::json& json, int indent);
template std::string JsonText(const nlohmann::ordered_json& json, int indent);

}  // namespace dtrain::internal
