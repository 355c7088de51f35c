// str_format.h - lets StrFormat() of an Abseil that knows only its own string_view take std's, too.
// SPDX-License-Identifier: Apache-2.0
//
// Found in place of Abseil's header of this name, which it includes, where cmake sees the need
// (DtrainDependencies.cmake). Uses Abseil's way to format types of one's own, AbslFormatConvert().
#ifndef DTRAIN_CMAKE_ABSEIL_2021_STR_FORMAT_H_
#define DTRAIN_CMAKE_ABSEIL_2021_STR_FORMAT_H_

#include <string_view>

#include_next "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace absl {
ABSL_NAMESPACE_BEGIN

// In this namespace because the lookup by arguments finds it here, by the types of the other two.
inline FormatConvertResult<FormatConversionCharSet::kString> AbslFormatConvert(
    std::string_view text, const FormatConversionSpec& conversion, FormatSink* sink) {
  return {sink->PutPaddedString(string_view(text.data(), text.size()), conversion.width(),
                                conversion.precision(), conversion.has_left_flag())};
}

ABSL_NAMESPACE_END
}  // namespace absl

#endif  // DTRAIN_CMAKE_ABSEIL_2021_STR_FORMAT_H_
