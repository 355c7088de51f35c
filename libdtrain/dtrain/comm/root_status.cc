// root_status.cc - one small reduction of exit codes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/root_status.h"

#include "absl/strings/str_cat.h"
#include "dtrain/base/internal/abseil_text.h"

namespace dtrain {

Status ShareRootStatus(const Status& status, std::string_view what, Communicator& comm) {
  const int code = comm.AllReduceValue(static_cast<int32_t>(status.code()), ReduceOp::kMax);
  if (code == 0 || !status.ok()) return status;
  return Status(static_cast<ExitCode>(code),
                absl::StrCat("the root rank could not ", ToAbsl(what), "; its message says why"));
}

}  // namespace dtrain
