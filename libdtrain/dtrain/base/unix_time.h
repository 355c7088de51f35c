// unix_time.h - the time of day, as a number.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_UNIX_TIME_H_
#define DTRAIN_BASE_UNIX_TIME_H_

#include <chrono>

namespace dtrain {

// Seconds since 1970. The clock may be set, so that a later time is not always larger.
inline double SecondsSince1970() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

}  // namespace dtrain

#endif  // DTRAIN_BASE_UNIX_TIME_H_
