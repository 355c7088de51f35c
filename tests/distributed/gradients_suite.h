// gradients_suite.h - how gradients and replicas of many ranks behave, as functions of any rank.
// SPDX-License-Identifier: Apache-2.0
//
// The numbers in the names are those of the table in tests/comm/README.md.
#ifndef DTRAIN_TESTS_DISTRIBUTED_GRADIENTS_SUITE_H_
#define DTRAIN_TESTS_DISTRIBUTED_GRADIENTS_SUITE_H_

#include <vector>

#include "comm/communicator_suite.h"

namespace dtrain::testing {

// For 1 to 4 ranks.
const std::vector<CommunicatorCase>& GradientCases();

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_DISTRIBUTED_GRADIENTS_SUITE_H_
