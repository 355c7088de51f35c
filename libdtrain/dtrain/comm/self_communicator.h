// self_communicator.h - the communicator of a single rank: every collective is already done.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_SELF_COMMUNICATOR_H_
#define DTRAIN_COMM_SELF_COMMUNICATOR_H_

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/comm/communicator.h"

namespace dtrain {

class SelfCommunicator final : public Communicator {
 public:
  explicit SelfCommunicator(std::string host = "localhost") : Communicator(0, {std::move(host)}) {}

  std::unique_ptr<Handle> StartAllReduce(void* /*data*/, int64_t /*count*/, DType /*dtype*/,
                                         ReduceOp /*op*/) override {
    return std::make_unique<FinishedHandle>();
  }
  std::unique_ptr<Handle> StartBroadcast(void* /*data*/, int64_t /*bytes*/, int root) override {
    DT_CHECK_EQ(root, 0);
    return std::make_unique<FinishedHandle>();
  }
  std::unique_ptr<Handle> StartReduceScatter(void* /*data*/, std::span<const int64_t> /*offsets*/,
                                             DType /*dtype*/, ReduceOp /*op*/) override {
    return std::make_unique<FinishedHandle>();
  }
  std::unique_ptr<Handle> StartAllGatherV(void* /*data*/,
                                          std::span<const int64_t> /*offsets*/) override {
    return std::make_unique<FinishedHandle>();
  }
  std::unique_ptr<Handle> StartAllToAllV(const void* from, std::span<const int64_t> from_offsets,
                                         void* to, std::span<const int64_t> to_offsets) override {
    const int64_t bytes = from_offsets[1] - from_offsets[0];
    DT_CHECK_EQ(bytes, to_offsets[1] - to_offsets[0]);
    if (bytes > 0) {
      std::memcpy(static_cast<std::byte*>(to) + to_offsets[0],
                  static_cast<const std::byte*>(from) + from_offsets[0],
                  static_cast<size_t>(bytes));
    }
    return std::make_unique<FinishedHandle>();
  }
  std::unique_ptr<Handle> StartBarrier() override { return std::make_unique<FinishedHandle>(); }
  std::unique_ptr<Communicator> Split(int color) override {
    if (color < 0) return nullptr;
    return std::make_unique<SelfCommunicator>(host(0));
  }
  void Poll() override {}
  int64_t bytes_sent() const override { return 0; }

 private:
  class FinishedHandle final : public Handle {
   public:
    bool Test() override { return true; }
    void Wait() override {}
  };
};

}  // namespace dtrain

#endif  // DTRAIN_COMM_SELF_COMMUNICATOR_H_
