// tokens.cc - from bytes to ids and back.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/tokens.h"

namespace dtrain {

std::vector<int32_t> PromptOf(std::string_view text) {
  std::vector<int32_t> ids = {kEndOfText};
  ids.reserve(text.size() + 1);
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

std::string TextOf(std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids) {
    if (id != kEndOfText) text.push_back(static_cast<char>(id));
  }
  return text;
}

}  // namespace dtrain
