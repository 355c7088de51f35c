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

  std::unique_ptr<Handle> StartAllReduce(void* /*data*/, int64_t /*count*/, DType /*dtype*/,
                                         ReduceOp /*op*/) override {
    return std::make_unique<FinishedHandle>();
  }
  void Broadcast(void* /*data*/, int64_t /*bytes*/, int /*root*/) override {}
  void ReduceScatter(void* /*data*/, std::span<const int64_t> /*offsets*/, DType /*dtype*/,
                     ReduceOp /*op*/) override {}
  void AllGatherV(void* /*data*/, std::span<const int64_t> /*offsets*/) override {}
  void Barrier() override {}
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
