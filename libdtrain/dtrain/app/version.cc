// version.cc - DTRAIN_VERSION and DTRAIN_BUILD_TYPE come from app/CMakeLists.txt.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/version.h"

#include "absl/strings/str_format.h"
#include "dtrain/base/cpu_isa.h"

namespace dtrain {

std::string_view Version() { return DTRAIN_VERSION; }

std::string BuildDescription() {
#ifdef __clang__
  constexpr std::string_view kCompiler = "";  // __VERSION__ names clang itself
#else
  constexpr std::string_view kCompiler = "GCC ";
#endif
  return absl::StrFormat("dtrain %s (%s, CPU kernels %s, %s%s)", Version(), DTRAIN_BUILD_TYPE,
                         CpuIsaName(BestCpuIsa()), kCompiler, __VERSION__);
}

}  // namespace dtrain
