// cublaslt.h - what tests tell the emulated cuBLASLt to do, and what it did.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_HOST_EXECUTOR_CUBLASLT_H_
#define DTRAIN_TESTS_TESTING_HOST_EXECUTOR_CUBLASLT_H_

#include <cstddef>
#include <cstdint>
#include <functional>

namespace dtrain::host_executor {

// What a product looks like to the library: column by column, so that rows are our columns.
struct CublasProduct {
  uint64_t rows = 0, columns = 0, depth = 0;
  uint32_t epilogue = 0;   // a cublasLtEpilogue_t
  uint64_t algorithm = 0;  // 0 for the first suggestion
};

// By which status it refuses: two before anything is launched, one perhaps after.
enum class CublasRefusal { kNotSupported, kInternalError, kExecutionFailed };

// Of the calling thread.
struct CublasSettings {
  // How many algorithms it suggests for a product; each computes the same, in its own order of
  // summation.
  std::function<int(const CublasProduct&)> suggestions = [](const CublasProduct&) { return 3; };
  // Seconds that one takes on the emulated GPU's clock.
  std::function<double(const CublasProduct&)> seconds = [](const CublasProduct&) { return 0.0; };
  // Whether it refuses to run one.
  std::function<bool(const CublasProduct&)> refuses = [](const CublasProduct&) { return false; };
  CublasRefusal refusal = CublasRefusal::kNotSupported;
  size_t version = 130100;

  CublasProduct last = {};  // that ran
  int64_t products = 0;     // that ran
  int64_t heuristics = 0;   // times it was asked for suggestions
};
CublasSettings& Cublas();

// Moves the emulated GPU's clock, which events read beside the host's, in this thread.
void AdvanceClock(double seconds);
double ClockSeconds();

}  // namespace dtrain::host_executor

#endif  // DTRAIN_TESTS_TESTING_HOST_EXECUTOR_CUBLASLT_H_
