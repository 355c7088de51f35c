// version.cc - what it prints comes from launch/CMakeLists.txt.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/version.h"

#include "absl/strings/str_format.h"
#include "dtrain/base/cpu_isa.h"

namespace dtrain {

#define DT_TEXT_(number) #number
#define DT_VERSION_TEXT_(major, minor, patch) \
  DT_TEXT_(major) "." DT_TEXT_(minor) "." DT_TEXT_(patch)
static_assert(std::string_view(DTRAIN_VERSION) == DT_VERSION_TEXT_(DTRAIN_VERSION_MAJOR,
                                                                   DTRAIN_VERSION_MINOR,
                                                                   DTRAIN_VERSION_PATCH),
              "version.h and CMakeLists.txt have different versions");

std::string_view Version() { return DTRAIN_VERSION; }

std::string BuildDescription() {
  return absl::StrFormat("dtrain %s (%s, CPU kernels %s, %s)", Version(), DTRAIN_BUILD_TYPE,
                         CpuIsaName(BestCpuIsa()), DTRAIN_COMPILER);
}

}  // namespace dtrain
