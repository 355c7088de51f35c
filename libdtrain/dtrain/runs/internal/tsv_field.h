// tsv_field.h - escapes texts for fields of tab-separated files, with one record per line.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_RUNS_INTERNAL_TSV_FIELD_H_
#define DTRAIN_RUNS_INTERNAL_TSV_FIELD_H_

#include <string>
#include <string_view>

#include "absl/strings/str_replace.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/status.h"

namespace dtrain::internal {

// Tabs, line ends and backslashes become \t, \n, \r and two backslashes.
inline std::string EscapeField(std::string_view text) {
  return absl::StrReplaceAll(ToAbsl(text),
                             {{"\\", "\\\\"}, {"\t", "\\t"}, {"\n", "\\n"}, {"\r", "\\r"}});
}

}  // namespace dtrain::internal

#endif  // DTRAIN_RUNS_INTERNAL_TSV_FIELD_H_
