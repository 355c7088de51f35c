// communicator_suite.h - what every communicator must do, as functions that any rank can run.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_COMM_COMMUNICATOR_SUITE_H_
#define DTRAIN_TESTS_COMM_COMMUNICATOR_SUITE_H_

#include <string>
#include <vector>

#include "dtrain/comm/communicator.h"

namespace dtrain::testing {

struct CommunicatorCase {
  const char* name;
  // Returns what is wrong, or an empty string.
  std::string (*run)(Communicator& comm);
};

const std::vector<CommunicatorCase>& CommunicatorCases();

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_COMM_COMMUNICATOR_SUITE_H_
