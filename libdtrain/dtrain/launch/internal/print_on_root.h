// print_on_root.h - what a command says to standard output, once for all ranks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_INTERNAL_PRINT_ON_ROOT_H_
#define DTRAIN_LAUNCH_INTERNAL_PRINT_ON_ROOT_H_

#include <string_view>

#include "dtrain/base/file.h"
#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"

namespace dtrain::internal {

// StorageError on the root where any of it was lost: WriteStdout().
inline Status PrintOnRoot(const Runtime& runtime, std::string_view text) {
  return runtime.comm.is_root() ? WriteStdout(text) : OkStatus();
}

}  // namespace dtrain::internal

#endif  // DTRAIN_LAUNCH_INTERNAL_PRINT_ON_ROOT_H_
