// root_status.h - shares the outcome of work that the root rank did for all ranks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_ROOT_STATUS_H_
#define DTRAIN_COMM_ROOT_STATUS_H_

#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"

namespace dtrain {

// The root passes the outcome of its work; the other ranks pass OK. Returns OK on all ranks if the
// root passed OK. Otherwise the root gets its own error, and the other ranks get one with the same
// exit code: "the root rank could not prepare the data; its message says why", if `what` is
// "prepare the data". So all ranks end together with one exit code. If another rank passes an
// error, that rank gets its own error and the others blame the root. All ranks call it.
Status ShareRootStatus(const Status& status, std::string_view what, Communicator& comm);

}  // namespace dtrain

#endif  // DTRAIN_COMM_ROOT_STATUS_H_
