// nccl.h - what tests tell the emulated NCCL to do wrong, and what it was asked for.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_HOST_EXECUTOR_NCCL_H_
#define DTRAIN_TESTS_TESTING_HOST_EXECUTOR_NCCL_H_

#include <cstdint>

#include "dtrain/comm/internal/nccl_library.h"

namespace dtrain::host_executor {

// Of the calling thread, which is one rank.
struct NcclSettings {
  bool is_absent = false;    // the library
  bool has_comm_id = false;  // NCCL_COMM_ID is set: all unique ids are the same
  int version = 22809;
  internal::NcclResult connecting = internal::NcclResult::kSuccess;  // what it comes to
  double connect_seconds = 0.0;                                      // what it takes at least
  // Collectives of a communicator, counted from 0: one that is entered and never ends, and one that
  // ends in an error.
  int64_t stuck = -1;
  int64_t failing = -1;

  int64_t ids = 0, collectives = 0, groups = 0, aborts = 0;  // so far
  int64_t communicators = 0;                                 // not destroyed
};
NcclSettings& Nccl();
// What threads begin with that have not used NCCL yet: those a rank starts itself.
NcclSettings& NcclOfNewThreads();

}  // namespace dtrain::host_executor

#endif  // DTRAIN_TESTS_TESTING_HOST_EXECUTOR_NCCL_H_
