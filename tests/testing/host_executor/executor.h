// executor.h - runs CUDA kernels on the host, one fiber per CUDA thread, and holds them to rules.
// SPDX-License-Identifier: Apache-2.0
//
// Blocks run one after another on the calling OS thread. A thread of a block runs until it waits at
// a barrier or a warp operation, leaves the kernel or breaks a rule. A broken rule ends the launch:
// Launch() throws Error, which names the kernel, the block and the thread. Rules:
//   - every thread of the block reaches every __syncthreads, the same one in the source;
//   - warp operations take the full mask, and all 32 lanes reach the same one in the source;
//   - shared memory is read after it is written (it starts as 0xff, NaN) and inside its bounds;
//   - vector accesses and operands of ptx.cuh are aligned, and copies waited for.
// Kernels built with -fsanitize=thread are also held to the order of their memory accesses; see
// race_detector.cc. All state belongs to the OS thread: ranks that are threads do not meet here.
#ifndef DTRAIN_TESTING_HOST_EXECUTOR_EXECUTOR_H_
#define DTRAIN_TESTING_HOST_EXECUTOR_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <stdexcept>
#include <string>

namespace dtrain::host_executor {

// A rule a kernel broke, or a launch no GPU would start.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The order in which the blocks of a launch, the warps of a block and the lanes of a warp get their
// turns. No order may change what a kernel computes.
struct Order {
  enum class Kind { kForward, kReverse, kShuffled };
  Kind kind = Kind::kForward;
  uint64_t seed = 1;  // of kShuffled
};
// Holds for the following launches of this OS thread. Without it, the environment variable
// DTRAIN_EXECUTOR_ORDER does: "forward", "reverse", "shuffled" or "shuffled:<seed>".
void SetOrder(const Order& order);

// What cuda_language.h and ptx.cuh are made of.

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// A place in a kernel's source.
#if defined(__cpp_lib_source_location)
using Location = std::source_location;
#else  // clang 14, which only reads this
class Location {
 public:
  static constexpr Location current() { return {}; }
  constexpr const char* file_name() const { return ""; }
  constexpr unsigned line() const { return 0; }
  constexpr unsigned column() const { return 0; }
};
#endif

struct Grid {
  int64_t x = 1, y = 1, z = 1;  // blocks
  int threads = 0;
  size_t shared_bytes = 0;
};

struct Kernel {
  const void* address = nullptr;  // of the function; names it in messages
  void (*call)(const void* address, const void* params) = nullptr;
  const void* params = nullptr;
};

// Runs every thread of every block.
void Run(const Kernel& kernel, const Grid& grid);

// __syncthreads.
void BlockBarrier(const Location& location);

// All lanes of the warp hand in an operand; once the last one has arrived, `combine` sees the 32
// operands in lane order, and all go on.
using Combine = void (*)(void* const* operands);
void WarpOperation(const char* name, unsigned mask, void* operand, Combine combine,
                   const Location& location);

// The block's object that belongs to `key`, made when first asked for.
void* StaticShared(const void* key, size_t bytes, size_t alignment);
// The block's Grid::shared_bytes, aligned to 1,024 bytes.
unsigned char* DynamicSharedMemory();

// Throw Error unless `address` is a multiple of `bytes`; unless the range is shared memory.
void CheckAligned(const volatile void* address, size_t bytes);
void CheckShared(const void* address, size_t bytes);

// What a twin reads or writes on behalf of its thread, for the race detector.
void RecordRead(const void* address, size_t bytes);
void RecordWrite(const void* address, size_t bytes);
// The same from race_runtime.cc, called between any two instructions of a kernel.
void ObserveAccess(const void* address, size_t bytes, bool is_write);

// cp.async: copies of 16 bytes (zeros unless `valid`), which reach `shared` only when waited for;
// until then it is 0xff. Groups are counted per thread.
void StartCopy(void* shared, const void* global, bool valid);
void CommitCopies();
void WaitForCopies(int groups_in_flight);

}  // namespace dtrain::host_executor

#endif  // DTRAIN_TESTING_HOST_EXECUTOR_EXECUTOR_H_
