// repeated_warnings.h - logs a warning that comes again and again once, with a count.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_REPEATED_WARNINGS_H_
#define DTRAIN_LAUNCH_REPEATED_WARNINGS_H_

#include <cstdint>
#include <string>

namespace dtrain {

class RepeatedWarnings {
 public:
  // Logs `line` as a warning. If the warning before it was of the same `kind`, the line is counted
  // and goes to the log file only.
  void Warn(int64_t step, const std::string& kind, const std::string& line);
  // Logs how many warnings were counted. The next warning is shown again.
  void End();

 private:
  std::string kind_;   // of the last warning that was shown, or ""
  int64_t count_ = 0;  // of the warnings that were not shown
  int64_t last_step_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_REPEATED_WARNINGS_H_
