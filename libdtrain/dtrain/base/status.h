// status.h - errors of the world (files, flags, data, disks) and the exit code each one ends with.
// SPDX-License-Identifier: Apache-2.0
//
//   const auto parse = [](const std::string& text) -> StatusOr<double> {
//     if (text.empty()) return DataError("rates.txt:7: an empty line; write a number");
//     return std::strtod(text.c_str(), nullptr);
//   };
//   DT_ASSIGN_OR_RETURN(const double rate, parse("0.001"));  // or returns the error
//
// A message names the path, line or field, and says what to do. Mistakes in the program itself,
// such as tensors of wrong shapes, are not statuses: they throw (base/check.h).
#ifndef DTRAIN_BASE_STATUS_H_
#define DTRAIN_BASE_STATUS_H_

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

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

// Success, or an error with its exit code and message. Copies are cheap: they share the message.
class [[nodiscard]] Status {
 public:
  Status() = default;  // success
  // An error; kDone, which is no error, becomes kInternal.
  Status(ExitCode code, std::string_view message);

  bool ok() const { return error_ == nullptr; }
  // kDone on success.
  ExitCode code() const { return ok() ? ExitCode::kDone : error_->code; }
  // Empty on success.
  const std::string& message() const;

  // Takes the other status unless this one is an error already: the first error stays.
  void Update(const Status& other) {
    if (ok()) *this = other;
  }

  // Two statuses are equal if their codes and messages are.
  friend bool operator==(const Status& a, const Status& b) {
    return a.code() == b.code() && a.message() == b.message();
  }

 private:
  struct Error {
    ExitCode code;
    std::string message;
  };
  std::shared_ptr<const Error> error_;
};

// Success.
inline Status OkStatus() { return {}; }

// One maker for each exit code.
Status UsageError(std::string_view message);
Status DataError(std::string_view message);
Status DivergedError(std::string_view message);
Status OutOfMemoryError(std::string_view message);
Status CommunicationError(std::string_view message);
Status StorageError(std::string_view message);
Status StoppedError(std::string_view message);
Status InternalError(std::string_view message);

// The status with "prefix: " before its message and the same exit code. Success stays success.
Status Annotate(const Status& status, std::string_view prefix);

namespace internal {
// Throws CheckError: the value of a StatusOr was taken that holds an error, or an error was
// expected and `status` is success.
[[noreturn]] void FailStatusOr(const Status& status);
}  // namespace internal

// A value, or the error that there is none. Access to a missing value throws CheckError.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  // The type of the value.
  using value_type = T;

  // From an error; success without a value throws CheckError.
  StatusOr(Status status) : status_(std::move(status)) {
    if (status_.ok()) internal::FailStatusOr(status_);
  }
  // From whatever a T is made of.
  template <typename U = T>
  requires(std::convertible_to<U, T> && !std::same_as<std::remove_cvref_t<U>, StatusOr> &&
           !std::same_as<std::remove_cvref_t<U>, Status>) StatusOr(U&& value)
      : value_(std::in_place, std::forward<U>(value)) {}

  // Whether there is a value.
  bool ok() const { return value_.has_value(); }
  // The error, or success if there is a value.
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  // The value. CheckError if there is none.
  const T& value() const& { return Checked(*this); }
  T& value() & { return Checked(*this); }
  T&& value() && { return std::move(Checked(*this)); }
  const T& operator*() const& { return Checked(*this); }
  T& operator*() & { return Checked(*this); }
  T&& operator*() && { return std::move(Checked(*this)); }
  const T* operator->() const { return &Checked(*this); }
  T* operator->() { return &Checked(*this); }

  // The value, or `other` if there is none.
  template <typename U>
  T value_or(U&& other) const& {
    return ok() ? *value_ : static_cast<T>(std::forward<U>(other));
  }

 private:
  template <typename Self>
  static auto& Checked(Self& self) {
    if (!self.ok()) internal::FailStatusOr(self.status_);
    return *self.value_;
  }

  Status status_;
  std::optional<T> value_;
};

}  // namespace dtrain

// Returns the error of `expression`, a Status, from the calling function.
#define DT_RETURN_IF_ERROR(expression)                                                   \
  do {                                                                                   \
    if (::dtrain::Status dt_status_ = (expression); !dt_status_.ok()) return dt_status_; \
  } while (false)

#define DT_CONCAT_INNER_(a, b) a##b
#define DT_CONCAT_(a, b) DT_CONCAT_INNER_(a, b)
// Declares a variable from a StatusOr, or returns its error from the calling function:
//   DT_ASSIGN_OR_RETURN(const Vocabulary vocab, Vocabulary::Load(path));
#define DT_ASSIGN_OR_RETURN(declaration, expression) \
  DT_ASSIGN_OR_RETURN_IMPL_(DT_CONCAT_(dt_result_, __LINE__), declaration, expression)
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration takes none.
#define DT_ASSIGN_OR_RETURN_IMPL_(result, declaration, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return std::move(result).status();             \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

#endif  // DTRAIN_BASE_STATUS_H_
