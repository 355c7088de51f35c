// json_object.cc - checks the keys while the object is parsed.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/formats/internal/json_object.h"

#include <set>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"

namespace dtrain::internal {

StatusOr<nlohmann::json> ParseJsonObject(const std::string& path, std::string_view what,
                                         std::string_view text) {
  std::vector<std::set<std::string>> keys;
  std::string duplicate;
  const auto watch = [&](int /*depth*/, nlohmann::json::parse_event_t event,
                         nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::object_start) keys.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) keys.pop_back();
    if (event == nlohmann::json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      duplicate = parsed.get<std::string>();
    }
    return true;
  };
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::exception& error) {
    return StorageError(absl::StrFormat("%s: damaged: %s is not JSON: %s", path, ToAbsl(what),
                                        Excerpt(error.what())));
  }
  if (!object.is_object()) {
    return StorageError(absl::StrFormat("%s: damaged: %s is not an object", path, ToAbsl(what)));
  }
  if (!duplicate.empty()) {
    return StorageError(absl::StrFormat("%s: damaged: %s names '%s' twice", path, ToAbsl(what),
                                        Excerpt(duplicate)));
  }
  return object;
}

std::string Excerpt(std::string_view text) {
  constexpr size_t kShown = 300;
  if (text.size() <= kShown) return std::string(text);
  return std::string(text.substr(0, kShown)) + "...";
}

}  // namespace dtrain::internal
