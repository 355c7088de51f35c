// shard_index.cc - reads model.safetensors.index.json.
// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_format.h"
#include "dtrain/formats/internal/json_object.h"
#include "dtrain/formats/weight_file.h"

namespace dtrain {

StatusOr<std::map<std::string, std::string>> ParseShardIndex(const std::string& path,
                                                             std::string_view json) {
  DT_ASSIGN_OR_RETURN(const nlohmann::json index,
                      internal::ParseJsonObject(path, "the index", json));
  const auto found = index.find("weight_map");
  if (found == index.end() || !found->is_object() || found->empty()) {
    return StorageError(path + ": damaged: it has no weight_map");
  }
  std::map<std::string, std::string> map;
  for (const auto& [name, file] : found->items()) {
    // The file must be next to the index, so a path is refused.
    const std::string text = file.is_string() ? file.get<std::string>() : "";
    if (text.find('/') != std::string::npos || !text.ends_with(".safetensors")) {
      return StorageError(
          absl::StrFormat("%s: damaged: '%s' is in \"%s\", which is not the name of a safetensors "
                          "file in the same folder",
                          path, internal::Excerpt(name), internal::Excerpt(text)));
    }
    map[name] = text;
  }
  return map;
}

}  // namespace dtrain
