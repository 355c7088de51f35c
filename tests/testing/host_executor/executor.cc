// executor.cc - what kernels call: the current thread's part in barriers, memory and copies.
// SPDX-License-Identifier: Apache-2.0
#include "testing/host_executor/executor.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "testing/host_executor/cuda_language.h"
#include "testing/host_executor/race_detector.h"
#include "testing/host_executor/scheduler.h"

namespace dtrain::host_executor {
namespace {

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
  if (executor.current() == nullptr) executor.Fail(absl::StrCat(name, " outside of a kernel"));
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
    executor.Fail(absl::StrCat("SharedStorage of ", bytes,
                               " bytes more than a block's static shared memory has"));
  }
  return object;
}

unsigned char* DynamicSharedMemory() {
  const Unobserved unobserved;
  CurrentThread("DynamicShared");
  return Executor::Get().shared().dynamic();
}

void CheckAligned(const volatile void* address, size_t bytes) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  if (value % bytes == 0) return;
  const Unobserved unobserved;
  Executor::Get().Fail(
      absl::StrCat("an access of ", bytes, " bytes at an address aligned to ", value & -value));
}

void CheckShared(const void* address, size_t bytes) {
  const Unobserved unobserved;
  const Executor& executor = Executor::Get();
  if (executor.shared().Contains(address, bytes)) return;
  executor.Fail(absl::StrCat(
      bytes, " bytes outside of shared memory: ", executor.shared().Describe(address)));
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
    if (!is_due(copy)) continue;
    Complete(copy);
    thread.has_unfenced_copies = true;
  }
  std::erase_if(thread.copies, is_due);
}

}  // namespace dtrain::host_executor
