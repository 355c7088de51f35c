// status.cc - makes and annotates statuses.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/status.h"

#include "dtrain/base/check.h"

namespace dtrain {

Status::Status(ExitCode code, std::string_view message)
    : error_(std::make_shared<const Error>(
          Error{code == ExitCode::kDone ? ExitCode::kInternal : code, std::string(message)})) {}

const std::string& Status::message() const {
  static const std::string none;
  return ok() ? none : error_->message;
}

Status UsageError(std::string_view message) { return {ExitCode::kUsage, message}; }
Status DataError(std::string_view message) { return {ExitCode::kData, message}; }
Status DivergedError(std::string_view message) { return {ExitCode::kDiverged, message}; }
Status OutOfMemoryError(std::string_view message) { return {ExitCode::kOutOfMemory, message}; }
Status CommunicationError(std::string_view message) { return {ExitCode::kCommunication, message}; }
Status StorageError(std::string_view message) { return {ExitCode::kStorage, message}; }
Status StoppedError(std::string_view message) { return {ExitCode::kStopped, message}; }
Status InternalError(std::string_view message) { return {ExitCode::kInternal, message}; }

Status Annotate(const Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  return {status.code(), std::string(prefix) + ": " + status.message()};
}

namespace internal {

void FailStatusOr(const Status& status) {
  if (status.ok()) DT_CHECK(false) << "a StatusOr was made of success, without a value";
  DT_CHECK(false) << "a missing value was taken: " << status.message();
  throw;  // never reached: a failed check throws
}

}  // namespace internal
}  // namespace dtrain
