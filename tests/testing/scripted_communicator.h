// scripted_communicator.h - a rank whose other ranks are a script: what it hears, the test says.
// SPDX-License-Identifier: Apache-2.0
//
// For code that learns something by broadcasts alone. All-to-alls bring nothing; nothing else
// happens: calls of other collectives are broken contracts.
#ifndef DTRAIN_TESTING_SCRIPTED_COMMUNICATOR_H_
#define DTRAIN_TESTING_SCRIPTED_COMMUNICATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/comm/communicator.h"

namespace dtrain::testing {

class ScriptedCommunicator final : public Communicator {
 public:
  // Reads what the root broadcasts, or writes what another rank hears.
  using OnBroadcast = std::function<void(void* data, int64_t bytes)>;

  ScriptedCommunicator(int rank, std::vector<std::string> hosts, OnBroadcast on_broadcast)
      : Communicator(rank, std::move(hosts)), on_broadcast_(std::move(on_broadcast)) {}

  std::unique_ptr<Handle> StartBroadcast(void* data, int64_t bytes, int /*root*/) override {
    on_broadcast_(data, bytes);
    return std::make_unique<FinishedHandle>();
  }
  std::unique_ptr<Handle> StartAllToAllV(const void* /*from*/,
                                         std::span<const int64_t> /*from_offsets*/, void* /*to*/,
                                         std::span<const int64_t> /*to_offsets*/) override {
    return std::make_unique<FinishedHandle>();
  }
  std::unique_ptr<Handle> StartAllReduce(void* /*data*/, int64_t /*count*/, DType /*dtype*/,
                                         ReduceOp /*op*/) override {
    return NotInTheScript();
  }
  std::unique_ptr<Handle> StartReduceScatter(void* /*data*/, std::span<const int64_t> /*offsets*/,
                                             DType /*dtype*/, ReduceOp /*op*/) override {
    return NotInTheScript();
  }
  std::unique_ptr<Handle> StartAllGatherV(void* /*data*/,
                                          std::span<const int64_t> /*offsets*/) override {
    return NotInTheScript();
  }
  std::unique_ptr<Handle> StartBarrier() override { return NotInTheScript(); }
  std::unique_ptr<Communicator> Split(int /*color*/) override {
    NotInTheScript();
    return nullptr;
  }
  void Poll() override {}
  int64_t bytes_sent() const override { return 0; }

 private:
  class FinishedHandle final : public Handle {
   public:
    bool Test() override { return true; }
    void Wait() override {}
  };
  static std::unique_ptr<Handle> NotInTheScript() {
    DT_CHECK(false) << "this collective is not in the script";
    return nullptr;
  }

  OnBroadcast on_broadcast_;
};

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTING_SCRIPTED_COMMUNICATOR_H_
