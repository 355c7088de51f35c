// check.cc - builds the message of a failed check and throws it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/check.h"

namespace dtrain::internal {

CheckFailure::CheckFailure(const char* file, int line, const std::string& expression) {
  message_ << file << ":" << line << ": check failed: " << expression;
}

CheckFailure::~CheckFailure() noexcept(false) { throw CheckError(message_.str()); }

}  // namespace dtrain::internal
