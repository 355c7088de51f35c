// fiber.cc - switching stacks: six registers on x86-64, ucontext elsewhere.
// SPDX-License-Identifier: Apache-2.0
#include "testing/host_executor/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// Saves what the System V ABI has the callee keep and the stack pointer in *from, and takes those
// that an earlier call left at `to`. Jumps where it would return: the processor foretells returns
// from the calls it saw, which were another stack's.
extern "C" void dtrain_switch_stack(void** from, void* to);
asm(R"(
.text
.globl dtrain_switch_stack
.hidden dtrain_switch_stack
.type dtrain_switch_stack, @function
dtrain_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size dtrain_switch_stack, .-dtrain_switch_stack
)");
#endif

namespace dtrain::host_executor {
namespace {

// The OS thread's own stack, while a fiber runs.
struct Origin {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  size_t bytes = 0;
  void (*body)() = nullptr;  // of the fiber that is starting
};
thread_local Origin origin;

// Stacks begin at different places of their pages: their hot ends would otherwise meet in the same
// few sets of the first cache.
constexpr size_t kShift = 448, kShifts = 32, kMaxShift = kShift * kShifts;

size_t PageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

#if defined(__SANITIZE_ADDRESS__)
void Leave(void** fake_stack, const void* bottom, size_t bytes) {
  __sanitizer_start_switch_fiber(fake_stack, bottom, bytes);
}
void Arrive(void* fake_stack, const void** bottom, size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, bottom, bytes);
}
#else
void Leave(void**, const void*, size_t) {}
void Arrive(void*, const void**, size_t*) {}
#endif

void Entry() {
  Arrive(nullptr, &origin.bottom, &origin.bytes);
  origin.body();
  std::abort();  // a body ends in Exit()
}

}  // namespace

Fiber::Fiber(int index) {
  void* memory = mmap(nullptr, PageBytes() + kStackBytes + kMaxShift, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, PageBytes(), PROT_NONE);
  memory_ = static_cast<char*>(memory);
  stack_ = memory_ + PageBytes() + static_cast<size_t>(index) % kShifts * kShift;
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
  munmap(memory_, PageBytes() + kStackBytes + kMaxShift);
}

void Fiber::Start(void (*body)()) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
  fake_stack_ = nullptr;
  origin.body = body;
#if defined(__x86_64__)
  // Six registers, then the address dtrain_switch_stack returns to, then none for Entry to return
  // to: as if called, so that the stack is aligned and unwinding ends.
  auto** top = reinterpret_cast<void**>(stack_ + kStackBytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&Entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  stack_pointer_ = static_cast<void*>(top);
#else
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_;
  context_.uc_stack.ss_size = kStackBytes;
  context_.uc_link = nullptr;
  makecontext(&context_, &Entry, 0);
#endif
}

void Fiber::Resume() {
  Leave(&origin.fake_stack, stack_, kStackBytes);
#if defined(__x86_64__)
  dtrain_switch_stack(&origin.stack_pointer, stack_pointer_);
#else
  swapcontext(&origin.context, &context_);
#endif
  Arrive(origin.fake_stack, nullptr, nullptr);
}

void Fiber::Suspend() {
  Leave(&fake_stack_, origin.bottom, origin.bytes);
#if defined(__x86_64__)
  dtrain_switch_stack(&stack_pointer_, origin.stack_pointer);
#else
  swapcontext(&context_, &origin.context);
#endif
  Arrive(fake_stack_, &origin.bottom, &origin.bytes);
}

void Fiber::Exit() {
  Leave(nullptr, origin.bottom, origin.bytes);
#if defined(__x86_64__)
  dtrain_switch_stack(&stack_pointer_, origin.stack_pointer);
#else
  swapcontext(&context_, &origin.context);
#endif
  std::abort();  // nobody resumes what has exited
}

}  // namespace dtrain::host_executor
