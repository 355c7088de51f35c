// abseil_text.h - std::string_view and Abseil's, which is a type of its own in some builds of it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_INTERNAL_ABSEIL_TEXT_H_
#define DTRAIN_BASE_INTERNAL_ABSEIL_TEXT_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace dtrain {

// For calls into Abseil, and for what they return.
inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view ToStd(absl::string_view text) { return {text.data(), text.size()}; }

}  // namespace dtrain

#endif  // DTRAIN_BASE_INTERNAL_ABSEIL_TEXT_H_
