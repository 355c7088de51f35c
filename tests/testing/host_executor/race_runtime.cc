// race_runtime.cc - the functions that -fsanitize=thread has the compiler call, without its
// library. SPDX-License-Identifier: Apache-2.0
//
// Kernels alone are compiled so, and linked with this file in place of libtsan. Not part of builds
// under the thread sanitizer itself.
#include <cstddef>

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

}  // extern "C"
