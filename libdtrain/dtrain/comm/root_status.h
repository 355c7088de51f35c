// root_status.h - how work that the root rank did for all of them ended.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_ROOT_STATUS_H_
#define DTRAIN_COMM_ROOT_STATUS_H_

#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"

namespace dtrain {

// OK everywhere where the root gives OK. Else its error on the root, and on the other ranks one of
// the same exit code: "the root rank could not prepare the data; its message says why", where
// `what` is "prepare the data". So all ranks end together, with one exit code. Ranks but the root
// give OK; where one does not, its own error ends it and the others say that it was the root's.
// Collective.
Status ShareRootStatus(const Status& status, std::string_view what, Communicator& comm);

}  // namespace dtrain

#endif  // DTRAIN_COMM_ROOT_STATUS_H_
