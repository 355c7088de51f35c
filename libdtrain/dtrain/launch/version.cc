// version.cc - what it prints comes from runtime/CMakeLists.txt.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/version.h"

#include "absl/strings/str_format.h"
#include "dtrain/base/cpu_isa.h"

namespace dtrain {

std::string_view Version() { return DTRAIN_VERSION; }

std::string BuildDescription() {
  return absl::StrFormat("dtrain %s (%s, CPU kernels %s, %s)", Version(), DTRAIN_BUILD_TYPE,
                         CpuIsaName(BestCpuIsa()), DTRAIN_COMPILER);
}

}  // namespace dtrain
