// status.h - errors of the world (files, flags, data, disks) and the exit code each one ends with.
// SPDX-License-Identifier: Apache-2.0
//
// A message names the path, line or field and what to do:
//   return DataError(absl::StrFormat("%s:%d: invalid UTF-8; re-encode the file", path, line));
#ifndef DTRAIN_BASE_STATUS_H_
#define DTRAIN_BASE_STATUS_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dtrain {

// Exit codes of every dtrain program (docs/errors.md).
enum class ExitCode : int {
  kDone = 0,
  kInternal = 1,
  kUsage = 2,  // command line, configuration, launch
  kData = 3,
  kDiverged = 4,
  kOutOfMemory = 5,
  kCommunication = 6,
  kStorage = 7,  // checkpoint or disk
  kStopped = 75  // stopped on request with a good checkpoint
};

// One maker per exit code; ExitCodeOf() reads it back, also after the status was annotated.
absl::Status UsageError(std::string_view message);
absl::Status DataError(std::string_view message);
absl::Status DivergedError(std::string_view message);
absl::Status OutOfMemoryError(std::string_view message);
absl::Status CommunicationError(std::string_view message);
absl::Status StorageError(std::string_view message);
absl::Status StoppedError(std::string_view message);
absl::Status InternalError(std::string_view message);

// By code; kDone, which is no error, is taken for kInternal.
absl::Status ErrorOf(ExitCode code, std::string_view message);

ExitCode ExitCodeOf(const absl::Status& status);

// The status with "prefix: " before its message; its exit code stays. OK stays OK.
absl::Status Annotate(const absl::Status& status, std::string_view prefix);

// The message as a std string_view: Abseil's own string_view is a different type in Debian's build.
inline std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}
// The other way, for calls into Abseil.
inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view ToStd(absl::string_view text) { return {text.data(), text.size()}; }

}  // namespace dtrain

#define DT_RETURN_IF_ERROR(expression)                                               \
  do {                                                                               \
    if (absl::Status dt_status_ = (expression); !dt_status_.ok()) return dt_status_; \
  } while (false)

#define DT_CONCAT_INNER_(a, b) a##b
#define DT_CONCAT_(a, b) DT_CONCAT_INNER_(a, b)
// DT_ASSIGN_OR_RETURN(const Vocabulary vocab, Vocabulary::Load(path));
#define DT_ASSIGN_OR_RETURN(declaration, expression) \
  DT_ASSIGN_OR_RETURN_IMPL_(DT_CONCAT_(dt_result_, __LINE__), declaration, expression)
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration takes none.
#define DT_ASSIGN_OR_RETURN_IMPL_(result, declaration, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return std::move(result).status();             \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

#endif  // DTRAIN_BASE_STATUS_H_
