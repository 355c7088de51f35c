// version.h - the version of dtrain, as CMakeLists.txt has it.
// SPDX-License-Identifier: Apache-2.0
//
//   static_assert(DTRAIN_VERSION_MAJOR == 0 && DTRAIN_VERSION_MINOR >= 1);
//   std::printf("dtrain %s\n", std::string(Version()).c_str());
#ifndef DTRAIN_LAUNCH_VERSION_H_
#define DTRAIN_LAUNCH_VERSION_H_

#include <string>
#include <string_view>

// The version of these headers, for #if. Version() is that of the library the program runs with.
#define DTRAIN_VERSION_MAJOR 0
#define DTRAIN_VERSION_MINOR 1
#define DTRAIN_VERSION_PATCH 0

namespace dtrain {

// "0.1.0"
std::string_view Version();

// "dtrain 0.1.0 (Release, CPU kernels avx512, GCC 12.2.0)", for --version and env.json.
std::string BuildDescription();

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_VERSION_H_
