// json_object.h - a JSON object from a file of somebody else's, every key in it once.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_FORMATS_INTERNAL_JSON_OBJECT_H_
#define DTRAIN_FORMATS_INTERNAL_JSON_OBJECT_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"

namespace dtrain::internal {

// JSON itself allows a key twice, where readers disagree on who wins: that is refused, as is what
// does not parse. StorageError: "PATH: damaged: WHAT is not JSON: ...".
// Parts of the text in it are cut: it may be one word of 100 MB.
StatusOr<nlohmann::json> ParseJsonObject(const std::string& path, std::string_view what,
                                         std::string_view text);

// The first 300 characters of `text`, with "..." where there are more: what messages can show of
// somebody else's file.
std::string Excerpt(std::string_view text);

// A name of a tensor that is longer than this is no name.
inline constexpr size_t kLongestTensorName = 4096;

}  // namespace dtrain::internal

#endif  // DTRAIN_FORMATS_INTERNAL_JSON_OBJECT_H_
