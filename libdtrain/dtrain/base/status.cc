// status.cc - carries the exit code as a payload of the status.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/status.h"

#include <string>

#include "absl/strings/cord.h"

namespace dtrain {
namespace {

constexpr char kPayloadUrl[] = "dtrain/exit_code";

absl::Status Make(absl::StatusCode code, ExitCode exit_code, std::string_view message) {
  absl::Status status(code, ToAbsl(message));
  status.SetPayload(kPayloadUrl, absl::Cord(std::to_string(static_cast<int>(exit_code))));
  return status;
}

}  // namespace

absl::Status UsageError(std::string_view message) {
  return Make(absl::StatusCode::kInvalidArgument, ExitCode::kUsage, message);
}
absl::Status DataError(std::string_view message) {
  return Make(absl::StatusCode::kDataLoss, ExitCode::kData, message);
}
absl::Status DivergedError(std::string_view message) {
  return Make(absl::StatusCode::kAborted, ExitCode::kDiverged, message);
}
absl::Status OutOfMemoryError(std::string_view message) {
  return Make(absl::StatusCode::kResourceExhausted, ExitCode::kOutOfMemory, message);
}
absl::Status CommunicationError(std::string_view message) {
  return Make(absl::StatusCode::kUnavailable, ExitCode::kCommunication, message);
}
absl::Status StorageError(std::string_view message) {
  return Make(absl::StatusCode::kFailedPrecondition, ExitCode::kStorage, message);
}
absl::Status StoppedError(std::string_view message) {
  return Make(absl::StatusCode::kCancelled, ExitCode::kStopped, message);
}
absl::Status InternalError(std::string_view message) {
  return Make(absl::StatusCode::kInternal, ExitCode::kInternal, message);
}

absl::Status ErrorOf(ExitCode code, std::string_view message) {
  switch (code) {
    case ExitCode::kUsage:
      return UsageError(message);
    case ExitCode::kData:
      return DataError(message);
    case ExitCode::kDiverged:
      return DivergedError(message);
    case ExitCode::kOutOfMemory:
      return OutOfMemoryError(message);
    case ExitCode::kCommunication:
      return CommunicationError(message);
    case ExitCode::kStorage:
      return StorageError(message);
    case ExitCode::kStopped:
      return StoppedError(message);
    case ExitCode::kDone:
    case ExitCode::kInternal:
      break;
  }
  return InternalError(message);
}

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return ExitCode::kDone;
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload) return ExitCode::kInternal;
  return static_cast<ExitCode>(std::stoi(std::string(*payload)));
}

absl::Status Annotate(const absl::Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  std::string message(prefix);
  message += ": ";
  message += MessageOf(status);
  absl::Status annotated(status.code(), message);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

}  // namespace dtrain
