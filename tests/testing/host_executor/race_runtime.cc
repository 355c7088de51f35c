// race_runtime.cc - the functions that -fsanitize=thread makes kernels call; not libtsan.
// SPDX-License-Identifier: Apache-2.0
//
// Kernels alone are compiled so, and linked with this file in place of libtsan. Not part of builds
// under the thread sanitizer itself.
#include <cstddef>
#include <cstdint>

#include "testing/host_executor/executor.h"
#include "testing/host_executor/race_detector.h"

using dtrain::host_executor::ObserveAccess;
namespace race = dtrain::host_executor::race;

extern "C" {

void __tsan_init() { race::enabled = true; }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define DTRAIN_DEFINE_ACCESS(bytes)                            \
  void __tsan_read##bytes(void* address) {                     \
    if (race::observing) ObserveAccess(address, bytes, false); \
  }                                                            \
  void __tsan_write##bytes(void* address) {                    \
    if (race::observing) ObserveAccess(address, bytes, true);  \
  }                                                            \
  void __tsan_unaligned_read##bytes(void* address) {           \
    if (race::observing) ObserveAccess(address, bytes, false); \
  }                                                            \
  void __tsan_unaligned_write##bytes(void* address) {          \
    if (race::observing) ObserveAccess(address, bytes, true);  \
  }
DTRAIN_DEFINE_ACCESS(1)
DTRAIN_DEFINE_ACCESS(2)
DTRAIN_DEFINE_ACCESS(4)
DTRAIN_DEFINE_ACCESS(8)
DTRAIN_DEFINE_ACCESS(16)
#undef DTRAIN_DEFINE_ACCESS

void __tsan_read_range(void* address, size_t bytes) {
  if (race::observing) ObserveAccess(address, bytes, false);
}
void __tsan_write_range(void* address, size_t bytes) {
  if (race::observing) ObserveAccess(address, bytes, true);
}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}

// Kernels have no atomics; the host code beside them counts references.
#define DTRAIN_DEFINE_ATOMICS(bits)                                                                \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* a, int) {               \
    return __atomic_load_n(a, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* a, uint##bits##_t value, int) {        \
    __atomic_store_n(a, value, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                                \
  uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* a, uint##bits##_t value,  \
                                                int) {                                             \
    return __atomic_exchange_n(a, value, __ATOMIC_SEQ_CST);                                        \
  }                                                                                                \
  uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile uint##bits##_t* a, uint##bits##_t value, \
                                                 int) {                                            \
    return __atomic_fetch_add(a, value, __ATOMIC_SEQ_CST);                                         \
  }                                                                                                \
  uint##bits##_t __tsan_atomic##bits##_fetch_sub(volatile uint##bits##_t* a, uint##bits##_t value, \
                                                 int) {                                            \
    return __atomic_fetch_sub(a, value, __ATOMIC_SEQ_CST);                                         \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_strong(                                               \
      volatile uint##bits##_t* a, uint##bits##_t* expected, uint##bits##_t value, int, int) {      \
    return __atomic_compare_exchange_n(a, expected, value, false, __ATOMIC_SEQ_CST,                \
                                       __ATOMIC_SEQ_CST);                                          \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_weak(                                                 \
      volatile uint##bits##_t* a, uint##bits##_t* expected, uint##bits##_t value, int, int) {      \
    return __atomic_compare_exchange_n(a, expected, value, false, __ATOMIC_SEQ_CST,                \
                                       __ATOMIC_SEQ_CST);                                          \
  }
DTRAIN_DEFINE_ATOMICS(8)
DTRAIN_DEFINE_ATOMICS(16)
DTRAIN_DEFINE_ATOMICS(32)
DTRAIN_DEFINE_ATOMICS(64)
#undef DTRAIN_DEFINE_ATOMICS
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

}  // extern "C"
