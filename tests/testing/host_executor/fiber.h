// fiber.h - a stack of its own that one OS thread switches to and away from.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTING_HOST_EXECUTOR_FIBER_H_
#define DTRAIN_TESTING_HOST_EXECUTOR_FIBER_H_

#include <cstddef>
#include <memory>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace dtrain::host_executor {

// All fibers of an OS thread are resumed from that thread's own stack, and suspend to it.
class Fiber {
 public:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr size_t kStackBytes = size_t{256} << 10;
#else
  static constexpr size_t kStackBytes = size_t{64} << 10;
#endif

  // The `index`-th of its OS thread. Throws std::bad_alloc.
  explicit Fiber(int index);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // The next Resume() calls `body`, which ends in Exit(). What ran here before is dropped, not
  // unwound.
  void Start(void (*body)());
  // Runs the fiber until it suspends or exits.
  void Resume();
  // On the fiber: goes on after Resume().
  void Suspend();
  [[noreturn]] void Exit();

  // Whether the address is on this fiber's stack.
  bool Owns(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - stack_) < kStackBytes;
  }

 private:
  char* memory_ = nullptr;  // starts with a page nobody may touch
  char* stack_ = nullptr;   // in memory_
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_;
#endif
  void* fake_stack_ = nullptr;  // AddressSanitizer's
};

}  // namespace dtrain::host_executor

#endif  // DTRAIN_TESTING_HOST_EXECUTOR_FIBER_H_
