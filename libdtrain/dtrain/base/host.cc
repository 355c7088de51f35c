// host.cc - the name of this machine.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/host.h"

#include <unistd.h>

#include <array>

namespace dtrain {

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace dtrain
