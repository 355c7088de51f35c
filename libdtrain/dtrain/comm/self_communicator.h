// self_communicator.h - the communicator of a single rank: every collective is already done.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_SELF_COMMUNICATOR_H_
#define DTRAIN_COMM_SELF_COMMUNICATOR_H_

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/comm/communicator.h"

namespace dtrain {

class SelfCommunicator final : public Communicator {
 public:
  explicit SelfCommunicator(std::string host = "localhost") : Communicator(0, {std::move(host)}) {}

  std::unique_ptr<Handle> StartAllReduce(void* data, int64_t count, DType dtype,
                                         ReduceOp op) override;
  std::unique_ptr<Handle> StartBroadcast(void* data, int64_t bytes, int root) override;
  std::unique_ptr<Handle> StartReduceScatter(void* data, std::span<const int64_t> offsets,
                                             DType dtype, ReduceOp op) override;
  std::unique_ptr<Handle> StartAllGatherV(void* data, std::span<const int64_t> offsets) override;
  std::unique_ptr<Handle> StartAllToAllV(const void* from, std::span<const int64_t> from_offsets,
                                         void* to, std::span<const int64_t> to_offsets) override;
  std::unique_ptr<Handle> StartBarrier() override;
  std::unique_ptr<Communicator> Split(int color) override {
    if (color < 0) return nullptr;
    return std::make_unique<SelfCommunicator>(topology().host(0));
  }
  void Poll() override {}
  int64_t bytes_sent() const override { return 0; }
};

}  // namespace dtrain

#endif  // DTRAIN_COMM_SELF_COMMUNICATOR_H_
