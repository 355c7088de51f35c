// version.h - the version of dtrain, as CMakeLists.txt has it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_VERSION_H_
#define DTRAIN_LAUNCH_VERSION_H_

#include <string>
#include <string_view>

namespace dtrain {

// "0.1.0"
std::string_view Version();

// "dtrain 0.1.0 (Release, CPU kernels avx512, GCC 12.2.0)", for --version and env.json.
std::string BuildDescription();

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_VERSION_H_
