// repeated_warnings.cc - compares each warning with the one before it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/repeated_warnings.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"

namespace dtrain {

void RepeatedWarnings::Warn(int64_t step, const std::string& kind, const std::string& line) {
  if (kind_ == kind) {
    ++count_;
    last_step_ = step;
    LogInfo(line);
    return;
  }
  End();
  kind_ = kind;
  LogWarning(line);
}

void RepeatedWarnings::End() {
  const RepeatedWarnings ended = std::exchange(*this, {});
  if (ended.count_ == 0) return;
  LogWarning(absl::StrFormat("%s: %d more like it, the last @%d", ended.kind_, ended.count_,
                             ended.last_step_));
}

}  // namespace dtrain
