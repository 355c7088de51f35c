// self_communicator.cc - refuses what ranks among others refuse; the rest is done.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/self_communicator.h"

#include <cstddef>
#include <cstring>

#include "dtrain/base/check.h"
#include "dtrain/comm/internal/collective_checks.h"

namespace dtrain {
namespace {

class FinishedHandle final : public Handle {
 public:
  bool Test() override { return true; }
  void Wait() override {}
};

}  // namespace

std::unique_ptr<Handle> SelfCommunicator::StartAllReduce(void* data, int64_t count, DType dtype,
                                                         ReduceOp op) {
  internal::CheckOpFits(op, dtype);
  internal::CheckData(data, count);
  return std::make_unique<FinishedHandle>();
}

std::unique_ptr<Handle> SelfCommunicator::StartBroadcast(void* data, int64_t bytes, int root) {
  internal::CheckRoot(root, size());
  internal::CheckData(data, bytes);
  return std::make_unique<FinishedHandle>();
}

std::unique_ptr<Handle> SelfCommunicator::StartReduceScatter(void* data,
                                                             std::span<const int64_t> offsets,
                                                             DType dtype, ReduceOp op) {
  internal::CheckOpFits(op, dtype);
  internal::CheckOffsets(offsets, size());
  internal::CheckData(data, offsets.back());
  return std::make_unique<FinishedHandle>();
}

std::unique_ptr<Handle> SelfCommunicator::StartAllGatherV(void* data,
                                                          std::span<const int64_t> offsets) {
  internal::CheckOffsets(offsets, size());
  internal::CheckData(data, offsets.back());
  return std::make_unique<FinishedHandle>();
}

std::unique_ptr<Handle> SelfCommunicator::StartAllToAllV(const void* from,
                                                         std::span<const int64_t> from_offsets,
                                                         void* to,
                                                         std::span<const int64_t> to_offsets) {
  internal::CheckOffsets(from_offsets, size());
  internal::CheckOffsets(to_offsets, size());
  const int64_t bytes = from_offsets[1] - from_offsets[0];
  DT_CHECK_EQ(bytes, to_offsets[1] - to_offsets[0]) << "what this rank sends to itself";
  if (bytes > 0) {
    std::memcpy(static_cast<std::byte*>(to) + to_offsets[0],
                static_cast<const std::byte*>(from) + from_offsets[0], static_cast<size_t>(bytes));
  }
  return std::make_unique<FinishedHandle>();
}

std::unique_ptr<Handle> SelfCommunicator::StartBarrier() {
  return std::make_unique<FinishedHandle>();
}

}  // namespace dtrain
