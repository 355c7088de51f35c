// differing_lines.h - how two texts of one setting a line differ.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_INTERNAL_DIFFERING_LINES_H_
#define DTRAIN_TRAIN_INTERNAL_DIFFERING_LINES_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace dtrain::internal {

// The lines of `now` that are not in `there`: "pairs 500, checksum 1234abcd".
inline std::string DifferingLines(const std::string& now, const std::string& there) {
  const std::vector<std::string> known = absl::StrSplit(there, '\n');
  std::vector<std::string> differing;
  for (const absl::string_view line : absl::StrSplit(now, '\n', absl::SkipEmpty())) {
    if (std::find(known.begin(), known.end(), line) == known.end()) differing.emplace_back(line);
  }
  return absl::StrJoin(differing, ", ");
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TRAIN_INTERNAL_DIFFERING_LINES_H_
