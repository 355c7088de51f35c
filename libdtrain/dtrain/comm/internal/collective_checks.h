// collective_checks.h - checks the arguments of collectives, before anything begins.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_COLLECTIVE_CHECKS_H_
#define DTRAIN_COMM_INTERNAL_COLLECTIVE_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "dtrain/base/check.h"
#include "dtrain/comm/communicator.h"

namespace dtrain::internal {

inline void CheckOpFits(ReduceOp op, DType dtype) {
  const bool integer = dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kUint8;
  DT_CHECK(op != ReduceOp::kAverage || !integer) << "an average needs a floating type";
  DT_CHECK(op != ReduceOp::kBitAnd || integer) << "a bitwise and needs integers";
}

// count: elements or bytes.
inline void CheckData(const void* data, int64_t count) {
  DT_CHECK_GE(count, 0);
  DT_CHECK(count == 0 || data != nullptr);
}

inline void CheckRoot(int root, int size) {
  DT_CHECK(root >= 0 && root < size) << "root " << root << " of " << size << " ranks";
}

// The offsets of the ranks' parts: [size + 1], never falling.
inline void CheckOffsets(std::span<const int64_t> offsets, int size) {
  DT_CHECK_EQ(offsets.size(), static_cast<size_t>(size) + 1);
  for (size_t r = 0; r + 1 < offsets.size(); ++r) {
    DT_CHECK_LE(offsets[r], offsets[r + 1]) << "the part of rank " << r;
  }
}

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_COLLECTIVE_CHECKS_H_
