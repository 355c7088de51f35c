// json_object.h - parses a JSON object of a foreign file, in which every key must be unique.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_FORMATS_INTERNAL_JSON_OBJECT_H_
#define DTRAIN_FORMATS_INTERNAL_JSON_OBJECT_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"

namespace dtrain::internal {

// Returns StorageError "PATH: damaged: WHAT is not JSON: ..." if the text does not parse or has a
// duplicate key. JSON allows duplicate keys, but readers disagree on their meaning. Long parts of
// the text are cut in the message, because it may be a single word of 100 MB.
StatusOr<nlohmann::json> ParseJsonObject(const std::string& path, std::string_view what,
                                         std::string_view text);

// The first 300 characters of `text`, with "..." if there are more, to show in messages.
std::string Excerpt(std::string_view text);

// A longer tensor name means that the file is damaged.
inline constexpr size_t kLongestTensorName = 4096;

}  // namespace dtrain::internal

#endif  // DTRAIN_FORMATS_INTERNAL_JSON_OBJECT_H_
