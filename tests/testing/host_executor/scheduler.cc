// scheduler.cc - turns, barriers, warp operations, and the rules they hold a kernel to.
// SPDX-License-Identifier: Apache-2.0
#include "testing/host_executor/scheduler.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/host_executor/cuda_language.h"
#include "testing/host_executor/kernel_name.h"
#include "testing/host_executor/race_detector.h"

namespace dtrain {

constinit thread_local host_executor::Index threadIdx, blockIdx, blockDim, gridDim;

namespace host_executor {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kWarpgroupThreads = 4 * kLanes;
constexpr unsigned kFullMask = 0xffffffffu;

bool SameText(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }

bool SamePlace(const Meeting& meeting, const char* name, const Location& location) {
  return meeting.location.line() == location.line() &&
         meeting.location.column() == location.column() && SameText(meeting.name, name) &&
         SameText(meeting.location.file_name(), location.file_name());
}

std::string Place(const char* name, const Location& location) {
  const char* const slash = std::strrchr(location.file_name(), '/');
  return absl::StrCat(name, " (", slash == nullptr ? location.file_name() : slash + 1, ":",
                      location.line(), ")");
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

}  // namespace

Executor& Executor::Get() {
  thread_local Executor executor;
  return executor;
}

Executor::Executor() : order_(OrderFromEnvironment()), random_(order_.seed) {}

template <typename T>
void Executor::Arrange(std::vector<T>& turns, int64_t count) {
  turns.resize(static_cast<size_t>(count));
  std::iota(turns.begin(), turns.end(), T{0});
  if (order_.kind == Order::Kind::kReverse) std::reverse(turns.begin(), turns.end());
  if (order_.kind == Order::Kind::kShuffled) std::shuffle(turns.begin(), turns.end(), random_);
}

void Executor::Fail(const std::string& what) const {
  if (!running_) throw Error(what);
  std::string where = absl::StrCat("kernel ", KernelName(kernel_.address), ", block (", blockIdx.x,
                                   ", ", blockIdx.y, ", ", blockIdx.z, ")");
  if (current_ != nullptr) absl::StrAppend(&where, ", thread ", current_->index);
  throw Error(absl::StrCat(where, ": ", what));
}

void Executor::Abandon(const std::string& what) {
  try {
    Fail(what);
  } catch (const Error&) {
    error_ = std::current_exception();
  }
  status_[static_cast<size_t>(current_->index)] = Status::kDone;
  current_->fiber.Exit();
}

void Executor::CheckGrid(const Grid& grid) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(absl::StrCat("kernel ", KernelName(kernel_.address), ": ", what));
  };
  if (grid.x < 0 || grid.x > 0x7fffffff || grid.y < 0 || grid.y > 65535 || grid.z < 0 ||
      grid.z > 65535) {
    refuse(absl::StrCat("a grid of ", grid.x, " x ", grid.y, " x ", grid.z,
                        " blocks; at most 2147483647 x 65535 x 65535"));
  }
  if (grid.threads <= 0 || grid.threads > kMaxThreads || grid.threads % kLanes != 0) {
    refuse(absl::StrCat("blocks of ", grid.threads, " threads; whole warps, at most 1024 threads"));
  }
  if (grid.shared_bytes > SharedMemory::kMaxBytes) {
    refuse(absl::StrCat(grid.shared_bytes, " bytes of shared memory; a block has at most ",
                        SharedMemory::kMaxBytes));
  }
}

void Executor::Run(const Kernel& kernel, const Grid& grid) {
  if (running_) Fail("kernels do not start kernels");
  kernel_ = kernel;
  CheckGrid(grid);
  const int64_t blocks = grid.x * grid.y * grid.z;
  num_threads_ = grid.threads;
  while (threads_.size() < static_cast<size_t>(num_threads_)) {
    threads_.push_back(std::make_unique<Thread>(static_cast<int>(threads_.size())));
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
  status_.assign(static_cast<size_t>(num_threads_), Status::kReady);
  done_ = 0;
  barrier_ = {};
  for (Warp& warp : warps_) warp.meeting = {};
  for (int i = 0; i < num_threads_; ++i) {
    Thread& thread = *threads_[static_cast<size_t>(i)];
    thread.groups = 0;
    thread.copies.clear();
    thread.has_unfenced_copies = false;
    thread.products = {};
    thread.fiber.Start(&ThreadMain);
  }
  Arrange(warp_turns_, num_threads_ / kLanes);
  Arrange(lane_turns_, kLanes);
  bool progress = true;
  while (progress && !error_) {
    progress = false;
    for (const int warp : warp_turns_) {
      const auto first = status_.begin() + warp * kLanes;
      while (!error_ && std::find(first, first + kLanes, Status::kReady) != first + kLanes) {
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
    const size_t index = static_cast<size_t>(warp) * kLanes + static_cast<size_t>(lane);
    if (status_[index] == Status::kReady) Resume(*threads_[index]);
    if (error_) return;
  }
}

// No thread can go on: either all have left, or they wait for each other.
void Executor::CheckAllDone() {
  if (done_ < num_threads_) {
    std::string what = "the threads wait for each other:";
    if (barrier_.arrived > 0) {
      absl::StrAppend(&what, " ", barrier_.arrived, " threads (thread ", barrier_.first,
                      " was the first) at ", Place(barrier_.name, barrier_.location), ";");
    }
    for (size_t i = 0; i < warps_.size(); ++i) {
      const Meeting& meeting = warps_[i].meeting;
      if (meeting.arrived == 0) continue;
      absl::StrAppend(&what, " ", meeting.arrived, " lanes of warp ", i, " (thread ", meeting.first,
                      " was the first) at ", Place(meeting.name, meeting.location), ";");
    }
    what.pop_back();
    Fail(what);
  }
  for (int i = kLanes; i < num_threads_; ++i) {
    const int first = i / kWarpgroupThreads * kWarpgroupThreads;
    const int of_first = threads_[static_cast<size_t>(first)]->products.started;
    const int mine = threads_[static_cast<size_t>(i)]->products.started;
    if (mine == of_first) continue;
    Fail(absl::StrCat("thread ", i, " started ", mine, " products of its warpgroup, thread ", first,
                      " ", of_first));
  }
  if (const unsigned char* const overrun = shared_.FindOverrun()) {
    Fail(absl::StrCat("a byte outside of shared memory was written: ", shared_.Describe(overrun)));
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
  self.status_[static_cast<size_t>(self.current_->index)] = Status::kDone;
  self.current_->fiber.Exit();
}

void Executor::LeaveKernel() {
  ++done_;
  if (!current_->copies.empty()) Fail("left the kernel with copies it never waited for");
  if (!current_->products.running.empty()) {
    Fail("left the kernel with products of its warpgroup it never waited for");
  }
  if (barrier_.arrived > 0) {
    Fail(absl::StrCat("left the kernel while thread ", barrier_.first, " waits at ",
                      Place(barrier_.name, barrier_.location)));
  }
  const Meeting& meeting = warps_[static_cast<size_t>(current_->index / kLanes)].meeting;
  if (meeting.arrived > 0) {
    Fail(absl::StrCat("left the kernel while thread ", meeting.first, " of its warp waits at ",
                      Place(meeting.name, meeting.location)));
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
  status_[static_cast<size_t>(current_->index)] = status;
  current_->fiber.Suspend();
}

void Executor::Wake(int first, int last, Status from) {
  std::replace(status_.begin() + first, status_.begin() + last, from, Status::kReady);
}

const Thread* Executor::UnfencedThread() const {
  for (int i = 0; i < num_threads_; ++i) {
    const Thread& thread = *threads_[static_cast<size_t>(i)];
    if (thread.has_unfenced_copies) return &thread;
  }
  return nullptr;
}

void Executor::ArriveAtBarrier(const Location& location) {
  constexpr const char* kName = "__syncthreads";
  if (current_ == nullptr) Fail("__syncthreads outside of a kernel");
  if (done_ > 0) {
    Fail(absl::StrCat("waits at ", Place(kName, location), ", but ", done_, " of ", num_threads_,
                      " threads left the kernel without it"));
  }
  if (barrier_.arrived == 0) {
    barrier_ = {0, current_->index, kName, location};
  } else if (!SamePlace(barrier_, kName, location)) {
    Fail(absl::StrCat("waits at ", Place(kName, location), ", but thread ", barrier_.first, " at ",
                      Place(kName, barrier_.location)));
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
  if (current_ == nullptr) Fail(absl::StrCat(name, " outside of a kernel"));
  if (mask != kFullMask) {
    Fail(absl::StrCat(Place(name, location), " with a mask other than 0xffffffff"));
  }
  const int warp_index = current_->index / kLanes;
  Warp& warp = warps_[static_cast<size_t>(warp_index)];
  if (warp.meeting.arrived == 0) {
    warp.meeting = {0, current_->index, name, location};
  } else if (!SamePlace(warp.meeting, name, location)) {
    Fail(absl::StrCat("takes part in ", Place(name, location), ", but thread ", warp.meeting.first,
                      " of its warp in ", Place(warp.meeting.name, warp.meeting.location)));
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

}  // namespace host_executor
}  // namespace dtrain
