// scheduler.h - one OS thread's executor: which thread of which block runs, and who waits for whom.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTING_HOST_EXECUTOR_SCHEDULER_H_
#define DTRAIN_TESTING_HOST_EXECUTOR_SCHEDULER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "testing/host_executor/executor.h"
#include "testing/host_executor/fiber.h"
#include "testing/host_executor/ptx_twins.h"
#include "testing/host_executor/shared_memory.h"

namespace dtrain::host_executor {

inline constexpr int kLanes = 32;

enum class Status : uint8_t { kReady, kAtBarrier, kAtWarpOperation, kDone };

struct PendingCopy {
  void* shared;
  const void* global;
  bool valid;
  int group;
};

// A thread's part in the products of its warpgroup.
struct WarpgroupProducts {
  struct Product {
    WarpgroupOperands operands;
    int group;
  };
  struct Sum {
    float* d;
    std::array<float, 32> values;
  };

  bool has_arrived = false;
  int groups = 0;   // committed
  int started = 0;  // in the whole kernel
  std::vector<Product> running;
  std::vector<Sum> sums;  // what d will be
};

struct Thread {
  explicit Thread(int thread_index) : fiber(thread_index), index(thread_index) {}

  Fiber fiber;
  int index;
  int groups = 0;  // of copies, committed
  std::vector<PendingCopy> copies;
  bool has_unfenced_copies = false;  // arrived, and not yet visible to the async proxy
  WarpgroupProducts products;
};

// Where some threads wait for the others.
struct Meeting {
  int arrived = 0;
  int first = 0;  // thread
  const char* name = "";
  Location location;
};

struct Warp {
  Meeting meeting;
  void* operands[kLanes] = {};
};

// Everything of one OS thread.
class Executor {
 public:
  static Executor& Get();

  void Run(const Kernel& kernel, const Grid& grid);
  void set_order(const Order& order) { order_ = order; }

  void ArriveAtBarrier(const Location& location);
  void ArriveAtWarpOperation(const char* name, unsigned mask, void* operand, Combine combine,
                             const Location& location);
  // Throws with the kernel, block and thread in front; outside of kernels without.
  [[noreturn]] void Fail(const std::string& what) const;
  // The same where the caller does not expect exceptions: the thread never comes back.
  [[noreturn]] void Abandon(const std::string& what);

  Thread* current() const { return current_; }
  // A thread of the block with copies that the async proxy does not see, or null.
  const Thread* UnfencedThread() const;
  SharedMemory& shared() { return shared_; }
  const SharedMemory& shared() const { return shared_; }

 private:
  Executor();
  static void ThreadMain();

  void CheckGrid(const Grid& grid) const;
  void RunBlock(int64_t block, const Grid& grid);
  void RunWarp(int warp);
  void CheckAllDone();
  void LeaveKernel();
  void Resume(Thread& thread);
  void Suspend(Status status);
  void Wake(int first, int last, Status from);
  template <typename T>
  void Arrange(std::vector<T>& turns, int64_t count);

  Kernel kernel_;
  Order order_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Status> status_;  // of the block's threads
  std::vector<Warp> warps_;
  std::vector<int64_t> block_turns_;
  std::vector<int> warp_turns_;
  std::vector<int> lane_turns_;
  SharedMemory shared_;
  int num_threads_ = 0;  // of the block
  int done_ = 0;
  Meeting barrier_;
  Thread* current_ = nullptr;  // null: the scheduler runs
  bool running_ = false;
  std::exception_ptr error_;
};

}  // namespace dtrain::host_executor

#endif  // DTRAIN_TESTING_HOST_EXECUTOR_SCHEDULER_H_
