// executor.cc - the scheduler of a block's threads, and the rules it holds them to.
// SPDX-License-Identifier: Apache-2.0
#include "testing/host_executor/executor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "testing/host_executor/cuda_language.h"
#include "testing/host_executor/fiber.h"
#include "testing/host_executor/kernel_name.h"
#include "testing/host_executor/race_detector.h"
#include "testing/host_executor/shared_memory.h"

namespace dtrain {

constinit thread_local host_executor::Index threadIdx, blockIdx, blockDim, gridDim;

namespace host_executor {
namespace {

constexpr int kLanes = 32;
constexpr int kMaxThreads = 1024;
constexpr unsigned kFullMask = 0xffffffffu;

enum class Status : uint8_t { kReady, kAtBarrier, kAtWarpOperation, kDone };

struct PendingCopy {
  void* shared;
  const void* global;
  bool valid;
  int group;
};

struct Thread {
  Fiber fiber;
  int index = 0;
  Status status = Status::kDone;
  int groups = 0;  // of copies, committed
  std::vector<PendingCopy> copies;
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

bool SameText(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }

bool SamePlace(const Meeting& meeting, const char* name, const Location& location) {
  return meeting.location.line() == location.line() &&
         meeting.location.column() == location.column() && SameText(meeting.name, name) &&
         SameText(meeting.location.file_name(), location.file_name());
}

std::string Place(const char* name, const Location& location) {
  const char* const slash = std::strrchr(location.file_name(), '/');
  return std::string(name) + " (" + (slash == nullptr ? location.file_name() : slash + 1) + ":" +
         std::to_string(location.line()) + ")";
}

Order OrderFromEnvironment() {
  const char* const value = std::getenv("DTRAIN_EXECUTOR_ORDER");
  const std::string text = value == nullptr ? "forward" : value;
  if (text == "forward") return {};
  if (text == "reverse") return {.kind = Order::Kind::kReverse};
  if (text == "shuffled") return {.kind = Order::Kind::kShuffled};
  if (text.starts_with("shuffled:")) {
    return {.kind = Order::Kind::kShuffled, .seed = std::strtoull(text.c_str() + 9, nullptr, 10)};
  }
  throw Error("DTRAIN_EXECUTOR_ORDER is '" + text +
              "'; it takes forward, reverse, shuffled or shuffled:<seed>");
}

// Everything of one OS thread.
class Executor {
 public:
  static Executor& Get() {
    thread_local Executor executor;
    return executor;
  }

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
  SharedMemory& shared() { return shared_; }

 private:
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
  Order order_ = OrderFromEnvironment();
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Thread>> threads_;
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

template <typename T>
void Executor::Arrange(std::vector<T>& turns, int64_t count) {
  turns.resize(static_cast<size_t>(count));
  std::iota(turns.begin(), turns.end(), T{0});
  if (order_.kind == Order::Kind::kReverse) std::reverse(turns.begin(), turns.end());
  if (order_.kind == Order::Kind::kShuffled) std::shuffle(turns.begin(), turns.end(), random_);
}

void Executor::Fail(const std::string& what) const {
  if (!running_) throw Error(what);
  std::string where = "kernel " + KernelName(kernel_.address) + ", block (" +
                      std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
                      std::to_string(blockIdx.z) + ")";
  if (current_ != nullptr) where += ", thread " + std::to_string(current_->index);
  throw Error(where + ": " + what);
}

void Executor::Abandon(const std::string& what) {
  try {
    Fail(what);
  } catch (const Error&) {
    error_ = std::current_exception();
  }
  current_->status = Status::kDone;
  current_->fiber.Exit();
}

void Executor::CheckGrid(const Grid& grid) const {
  const auto shape = [&] {
    return "a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
           std::to_string(grid.z) + " blocks of " + std::to_string(grid.threads) + " threads";
  };
  const auto refuse = [&](const std::string& what) {
    throw Error("kernel " + KernelName(kernel_.address) + ": " + what);
  };
  if (grid.x < 0 || grid.x > 0x7fffffff || grid.y < 0 || grid.y > 65535 || grid.z < 0 ||
      grid.z > 65535) {
    refuse(shape() + " is beyond 2147483647 x 65535 x 65535");
  }
  if (grid.threads <= 0 || grid.threads > kMaxThreads || grid.threads % kLanes != 0) {
    refuse(shape() + "; a block has whole warps, at most 1024 threads");
  }
  if (grid.shared_bytes > SharedMemory::kMaxBytes) {
    refuse(std::to_string(grid.shared_bytes) + " bytes of shared memory; a block has at most " +
           std::to_string(SharedMemory::kMaxBytes));
  }
}

void Executor::Run(const Kernel& kernel, const Grid& grid) {
  if (running_) Fail("kernels do not start kernels");
  kernel_ = kernel;
  CheckGrid(grid);
  const int64_t blocks = grid.x * grid.y * grid.z;
  num_threads_ = grid.threads;
  while (threads_.size() < static_cast<size_t>(num_threads_)) {
    threads_.push_back(std::make_unique<Thread>());
    threads_.back()->index = static_cast<int>(threads_.size()) - 1;
  }
  warps_.resize(static_cast<size_t>(num_threads_ / kLanes));
  random_.seed(order_.seed);
  Arrange(block_turns_, blocks);
  blockDim = {static_cast<unsigned>(num_threads_), 1, 1};
  gridDim = {static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
             static_cast<unsigned>(grid.z)};
  running_ = true;
  error_ = nullptr;
  race::StartLaunch();
  for (size_t i = 0; i < block_turns_.size() && !error_; ++i) RunBlock(block_turns_[i], grid);
  race::observing = false;
  running_ = false;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Executor::RunBlock(int64_t block, const Grid& grid) {
  blockIdx = {static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
              static_cast<unsigned>(block / grid.x / grid.y)};
  shared_.Reset(grid.shared_bytes);
  race::StartBlock(&shared_);
  done_ = 0;
  barrier_ = {};
  for (Warp& warp : warps_) warp.meeting = {};
  for (int i = 0; i < num_threads_; ++i) {
    Thread& thread = *threads_[static_cast<size_t>(i)];
    thread.status = Status::kReady;
    thread.groups = 0;
    thread.copies.clear();
    thread.fiber.Start(&ThreadMain);
  }
  Arrange(warp_turns_, num_threads_ / kLanes);
  Arrange(lane_turns_, kLanes);
  bool progress = true;
  while (progress && !error_) {
    progress = false;
    for (const int warp : warp_turns_) {
      const auto first = threads_.begin() + warp * kLanes;
      while (!error_ && std::any_of(first, first + kLanes, [](const auto& thread) {
        return thread->status == Status::kReady;
      })) {
        RunWarp(warp);
        progress = true;
      }
    }
  }
  if (error_) return;
  try {
    CheckAllDone();
  } catch (const Error&) {
    error_ = std::current_exception();
  }
}

void Executor::RunWarp(int warp) {
  for (const int lane : lane_turns_) {
    Thread& thread = *threads_[static_cast<size_t>(warp * kLanes + lane)];
    if (thread.status == Status::kReady) Resume(thread);
    if (error_) return;
  }
}

// No thread can go on: either all have left, or they wait for each other.
void Executor::CheckAllDone() {
  if (done_ < num_threads_) {
    std::string what = "the threads wait for each other:";
    if (barrier_.arrived > 0) {
      what += " " + std::to_string(barrier_.arrived) + " threads (thread " +
              std::to_string(barrier_.first) + " was the first) at " +
              Place(barrier_.name, barrier_.location) + ";";
    }
    for (size_t i = 0; i < warps_.size(); ++i) {
      const Meeting& meeting = warps_[i].meeting;
      if (meeting.arrived == 0) continue;
      what += " " + std::to_string(meeting.arrived) + " lanes of warp " + std::to_string(i) +
              " (thread " + std::to_string(meeting.first) + " was the first) at " +
              Place(meeting.name, meeting.location) + ";";
    }
    what.pop_back();
    Fail(what);
  }
  if (const unsigned char* const overrun = shared_.FindOverrun()) {
    Fail("a byte outside of shared memory was written: " + shared_.Describe(overrun));
  }
}

void Executor::ThreadMain() {
  Executor& self = Get();
  try {
    race::observing = race::enabled;
    self.kernel_.call(self.kernel_.address, self.kernel_.params);
    race::observing = false;
    self.LeaveKernel();
  } catch (...) {
    race::observing = false;
    self.error_ = std::current_exception();
  }
  self.current_->status = Status::kDone;
  self.current_->fiber.Exit();
}

void Executor::LeaveKernel() {
  ++done_;
  if (!current_->copies.empty()) Fail("left the kernel with copies it never waited for");
  if (barrier_.arrived > 0) {
    Fail("left the kernel while thread " + std::to_string(barrier_.first) + " waits at " +
         Place(barrier_.name, barrier_.location));
  }
  const Meeting& meeting = warps_[static_cast<size_t>(current_->index / kLanes)].meeting;
  if (meeting.arrived > 0) {
    Fail("left the kernel while thread " + std::to_string(meeting.first) +
         " of its warp waits at " + Place(meeting.name, meeting.location));
  }
}

void Executor::Resume(Thread& thread) {
  current_ = &thread;
  threadIdx = {static_cast<unsigned>(thread.index), 0, 0};
  race::StartThread(thread.index, &thread.fiber);
  thread.fiber.Resume();
  current_ = nullptr;
}

void Executor::Suspend(Status status) {
  current_->status = status;
  current_->fiber.Suspend();
}

void Executor::Wake(int first, int last, Status from) {
  for (int i = first; i < last; ++i) {
    Thread& thread = *threads_[static_cast<size_t>(i)];
    if (thread.status == from) thread.status = Status::kReady;
  }
}

void Executor::ArriveAtBarrier(const Location& location) {
  constexpr const char* kName = "__syncthreads";
  if (current_ == nullptr) Fail("__syncthreads outside of a kernel");
  if (done_ > 0) {
    Fail("waits at " + Place(kName, location) + ", but " + std::to_string(done_) + " of " +
         std::to_string(num_threads_) + " threads left the kernel without it");
  }
  if (barrier_.arrived == 0) {
    barrier_ = {0, current_->index, kName, location};
  } else if (!SamePlace(barrier_, kName, location)) {
    Fail("waits at " + Place(kName, location) + ", but thread " + std::to_string(barrier_.first) +
         " at " + Place(kName, barrier_.location));
  }
  if (++barrier_.arrived < num_threads_) {
    Suspend(Status::kAtBarrier);
    return;
  }
  barrier_.arrived = 0;
  race::PassBarrier();
  Wake(0, num_threads_, Status::kAtBarrier);
}

void Executor::ArriveAtWarpOperation(const char* name, unsigned mask, void* operand,
                                     Combine combine, const Location& location) {
  if (current_ == nullptr) Fail(std::string(name) + " outside of a kernel");
  const int warp_index = current_->index / kLanes;
  Warp& warp = warps_[static_cast<size_t>(warp_index)];
  if (mask != kFullMask) {
    Fail(Place(name, location) + " with a mask other than 0xffffffff");
  }
  if (warp.meeting.arrived == 0) {
    warp.meeting = {0, current_->index, name, location};
  } else if (!SamePlace(warp.meeting, name, location)) {
    Fail("takes part in " + Place(name, location) + ", but thread " +
         std::to_string(warp.meeting.first) + " of its warp in " +
         Place(warp.meeting.name, warp.meeting.location));
  }
  warp.operands[current_->index % kLanes] = operand;
  if (++warp.meeting.arrived < kLanes) {
    Suspend(Status::kAtWarpOperation);
    return;
  }
  warp.meeting.arrived = 0;
  combine(warp.operands);
  race::PassWarpOperation(warp_index);
  Wake(warp_index * kLanes, (warp_index + 1) * kLanes, Status::kAtWarpOperation);
}

// While the executor's own code runs on a kernel's thread.
class Unobserved {
 public:
  Unobserved() : before_(race::observing) { race::observing = false; }
  ~Unobserved() { race::observing = before_; }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;

 private:
  bool before_;
};

void Record(const void* address, size_t bytes, bool is_write) {
  const Executor& executor = Executor::Get();
  if (!race::enabled || executor.current() == nullptr) return;
  if (!race::Access(address, bytes, is_write)) executor.Fail(race::LastRace());
}

void Complete(const PendingCopy& copy) {
  if (copy.valid) {
    std::memcpy(copy.shared, copy.global, 16);
  } else {
    std::memset(copy.shared, 0, 16);
  }
  Record(copy.shared, 16, /*is_write=*/true);
}

Thread& CurrentThread(const char* name) {
  Executor& executor = Executor::Get();
  if (executor.current() == nullptr) executor.Fail(std::string(name) + " outside of a kernel");
  return *executor.current();
}

}  // namespace

void SetOrder(const Order& order) { Executor::Get().set_order(order); }

void Run(const Kernel& kernel, const Grid& grid) { Executor::Get().Run(kernel, grid); }

void BlockBarrier(const Location& location) {
  const Unobserved unobserved;
  Executor::Get().ArriveAtBarrier(location);
}

void WarpOperation(const char* name, unsigned mask, void* operand, Combine combine,
                   const Location& location) {
  const Unobserved unobserved;
  Executor::Get().ArriveAtWarpOperation(name, mask, operand, combine, location);
}

unsigned Ballot(const char* name, unsigned mask, bool predicate, const Location& location) {
  struct Operand {
    bool predicate;
    unsigned result;
  };
  Operand operand{predicate, 0};
  const auto combine = [](void* const* operands) {
    unsigned result = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      result |= unsigned{static_cast<const Operand*>(operands[lane])->predicate} << lane;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      static_cast<Operand*>(operands[lane])->result = result;
    }
  };
  WarpOperation(name, mask, &operand, combine, location);
  return operand.result;
}

void* StaticShared(const void* key, size_t bytes, size_t alignment) {
  const Unobserved unobserved;
  CurrentThread("SharedStorage");
  Executor& executor = Executor::Get();
  void* const object = executor.shared().Static(key, bytes, alignment);
  if (object == nullptr) {
    executor.Fail("SharedStorage of " + std::to_string(bytes) +
                  " more bytes is beyond a block's static shared memory");
  }
  return object;
}

unsigned char* DynamicSharedMemory() {
  const Unobserved unobserved;
  CurrentThread("DynamicShared");
  return Executor::Get().shared().dynamic();
}

void CheckAligned(const volatile void* address, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes == 0) return;
  const Unobserved unobserved;
  Executor::Get().Fail(
      "an access of " + std::to_string(bytes) + " bytes is aligned to " +
      std::to_string(reinterpret_cast<uintptr_t>(address) & -reinterpret_cast<uintptr_t>(address)));
}

void CheckShared(const void* address, size_t bytes) {
  const Unobserved unobserved;
  Executor& executor = Executor::Get();
  if (executor.shared().Contains(address, bytes)) return;
  executor.Fail(std::to_string(bytes) + " bytes " + executor.shared().Describe(address));
}

void RecordRead(const void* address, size_t bytes) {
  const Unobserved unobserved;
  Record(address, bytes, /*is_write=*/false);
}

void RecordWrite(const void* address, size_t bytes) {
  const Unobserved unobserved;
  Record(address, bytes, /*is_write=*/true);
}

void ObserveAccess(const void* address, size_t bytes, bool is_write) {
  const Unobserved unobserved;
  if (!race::Access(address, bytes, is_write)) Executor::Get().Abandon(race::LastRace());
}

void StartCopy(void* shared, const void* global, bool valid) {
  CheckAligned(shared, 16);
  CheckShared(shared, 16);
  if (valid) CheckAligned(global, 16);
  const Unobserved unobserved;
  Thread& thread = CurrentThread("CpAsync16");
  thread.copies.push_back({shared, global, valid, thread.groups});
  if (valid) Record(global, 16, /*is_write=*/false);
  Record(shared, 16, /*is_write=*/true);
  std::memset(shared, 0xff, 16);
}

void CommitCopies() {
  const Unobserved unobserved;
  ++CurrentThread("CpAsyncCommit").groups;
}

void WaitForCopies(int groups_in_flight) {
  const Unobserved unobserved;
  Thread& thread = CurrentThread("CpAsyncWait");
  const auto is_due = [&](const PendingCopy& copy) {
    return copy.group < thread.groups - groups_in_flight;
  };
  for (const PendingCopy& copy : thread.copies) {
    if (is_due(copy)) Complete(copy);
  }
  std::erase_if(thread.copies, is_due);
}

}  // namespace host_executor
}  // namespace dtrain
