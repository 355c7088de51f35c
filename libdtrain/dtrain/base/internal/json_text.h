// json_text.h - JSON from text and to text.
// SPDX-License-Identifier: Apache-2.0
//
// The parser and the printer of nlohmann are templates. A source that calls them compiles them
// again, which takes one to five seconds. json_text.cc does that once for all. Example:
//
//   const auto json = ParseJson<nlohmann::json>(text);
//   if (!json.is_object()) return StorageError(path + ": is no JSON object");
#ifndef DTRAIN_BASE_INTERNAL_JSON_TEXT_H_
#define DTRAIN_BASE_INTERNAL_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace dtrain::internal {

// Returns the value that the text describes. Where it is no JSON, is_discarded() of the result is
// true, and each of is_object(), is_array() and so on is false. Json: nlohmann::json or, where keys
// keep their order, ordered_json.
template <typename Json>
Json ParseJson(std::string_view text);

// The same, but text that is no JSON is an exception: Json::parse_error.
template <typename Json>
Json ParseJsonOrThrow(std::string_view text);

// The value as text: on one line, or with `indent` spaces a level on several. Bytes that are no
// UTF-8 become U+FFFD.
template <typename Json>
std::string JsonText(const Json& json, int indent = -1);

extern template nlohmann::json ParseJson(std::string_view text);
extern template nlohmann::ordered_json ParseJson(std::string_view text);
extern template nlohmann::json ParseJsonOrThrow(std::string_view text);
extern template nlohmann::ordered_json ParseJsonOrThrow(std::string_view text);
extern template std::string JsonText(const nlohmann::json& json, int indent);
extern template std::string JsonText(const nlohmann::ordered_json& json, int indent);

}  // namespace dtrain::internal

#endif  // DTRAIN_BASE_INTERNAL_JSON_TEXT_H_
