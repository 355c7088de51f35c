// collectives_suite.h - how named collectives behave, as functions that any rank can run.
// SPDX-License-Identifier: Apache-2.0
//
// The numbers in the names are those of the table in tests/comm/README.md.
#ifndef DTRAIN_TESTS_COMM_COLLECTIVES_SUITE_H_
#define DTRAIN_TESTS_COMM_COLLECTIVES_SUITE_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "comm/communicator_suite.h"
#include "dtrain/comm/collectives.h"

namespace dtrain::testing {

// Reductions: all-reduce, grouped, reduce-scatter, barrier, join, groups of ranks.
const std::vector<CommunicatorCase>& ReductionCases();
// Reductions: scale factors of each tensor, what joined ranks bring.
const std::vector<CommunicatorCase>& ValueCases();
// Moves: all-gather, broadcast, all-to-all, small objects; the queue's life.
const std::vector<CommunicatorCase>& MovementCases();
// Random orders, sizes and delays: `tensors` of them, exact integer sums. What is wrong, or "".
std::string FuzzTheQueue(Communicator& comm, int tensors, uint64_t seed,
                         const CollectivesOptions& options);
// As a user might set them: little fusion, a cache that is too small. A stall soon fails.
CollectivesOptions OptionsOfFuzz();

// ---- helpers of the suites ---------------------------------------------------------------------

template <typename T>
Tensor View(std::vector<T>& values) {
  return Tensor::View(values.data(), {static_cast<int64_t>(values.size())});
}
template <typename T>
Tensor View(std::vector<T>& values, const Shape& shape) {
  return Tensor::View(values.data(), shape);
}

// One after another, as a list is evaluated; the operands of + are not.
inline std::string Join(std::initializer_list<std::string> findings) {
  std::string all;
  for (const std::string& finding : findings) all += finding;
  return all;
}

// "" where `status` is an error of exit code `code` whose message holds all `parts`.
std::string ExpectError(const Status& status, ExitCode code, const std::vector<std::string>& parts);
inline std::string ExpectOk(const Status& status) { return std::string(status.message()); }

// "" where all elements are `expected`.
template <typename T>
std::string ExpectAll(const char* what, const std::vector<T>& values, double expected) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto got = static_cast<double>(static_cast<float>(values[i]));
    if (got == expected) continue;
    return std::string(what) + " [" + std::to_string(i) + "] is " + std::to_string(got) +
           ", expected " + std::to_string(expected);
  }
  return "";
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_COMM_COLLECTIVES_SUITE_H_
