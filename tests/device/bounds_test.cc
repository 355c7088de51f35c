// bounds_test.cc - a kernel that reads or writes outside of its tensor ends at that access.
// SPDX-License-Identifier: Apache-2.0
//
// Built with AddressSanitizer alone, which ends the process: each kernel runs in a child.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include "device/kernel_testing.h"
#include "dtrain/device/arena.h"
#include "dtrain/device/buffer.h"
#include "dtrain/device/tensor.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

using Catch::Contains;
using testing::ErrorOf;

// What a child says that runs `work`, and whether it came to the work's end.
struct Ended {
  bool whole = false;
  std::string output;
};
template <typename Work>
Ended RunInChild(const Work& work) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    work();
    _exit(0);
  }
  close(ends[1]);
  Ended ended;
  std::array<char, 4096> text{};
  for (ssize_t bytes; (bytes = read(ends[0], text.data(), text.size())) > 0;) {
    ended.output.append(text.data(), static_cast<size_t>(bytes));
  }
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  ended.whole = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return ended;
}

struct Args {
  float* values = nullptr;
  int64_t n = 0;
  float* out = nullptr;
};
__global__ void ReadKernel(Args args) {
  for (int64_t i = threadIdx.x; i < args.n; i += blockDim.x) args.out[0] = args.values[i];
}
__global__ void WriteKernel(Args args) {
  for (int64_t i = threadIdx.x; i < args.n; i += blockDim.x) args.values[i] = 1;
}
__global__ void WriteBeforeKernel(Args args) { args.values[-1 - args.n] = 1; }
__global__ void WriteSharedKernel(Args args) {
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  shared[threadIdx.x + args.n] = 1;
}

constexpr Device kGpu{DeviceType::kCuda};

// The middle one of three tensors of 33 elements, between which an arena leaves little.
struct Tensors {
  std::shared_ptr<Arena> arena = Arena::Create(kGpu, "test");
  Tensor before = Empty(*arena, {33}, DType::kFloat32);
  Tensor tensor = Empty(*arena, {33}, DType::kFloat32);
  Tensor after = Empty(*arena, {33}, DType::kFloat32);
};

Ended Launched(void (*kernel)(Args), const Tensors& tensors, int64_t n) {
  return RunInChild([&] {
    ErrorOf(kernel, {.threads = 32, .shared_bytes = 128},
            Args{tensors.tensor.data<float>(), n, tensors.after.data<float>()});
  });
}

TEST_CASE("a kernel that stays inside of its tensor ends as it should") {
  const Tensors tensors;
  for (auto* const kernel : {&ReadKernel, &WriteKernel}) {
    const Ended ended = Launched(kernel, tensors, 33);
    INFO(ended.output);
    CHECK(ended.whole);
  }
}

TEST_CASE("one element past a tensor of an arena is found, read or written") {
  const Tensors tensors;
  for (auto* const kernel : {&ReadKernel, &WriteKernel}) {
    const Ended ended = Launched(kernel, tensors, 34);
    CHECK(!ended.whole);
    CHECK_THAT(ended.output, Contains("use-after-poison") && Contains("size 4"));
  }
  const Ended ended = Launched(WriteBeforeKernel, tensors, 0);
  CHECK(!ended.whole);
  CHECK_THAT(ended.output, Contains("use-after-poison"));
}

TEST_CASE("a block of an arena that is used again is open to its own size") {
  Tensors tensors;
  tensors.tensor = Tensor();
  tensors.tensor = Empty(*tensors.arena, {40}, DType::kFloat32);
  CHECK(Launched(WriteKernel, tensors, 40).whole);
  CHECK(!Launched(WriteKernel, tensors, 41).whole);
}

TEST_CASE("one byte past a buffer of the device is found") {
  const Buffer buffer(kGpu, 4 * 31);
  const auto launched = [&](int64_t n) {
    return RunInChild([&] {
      ErrorOf(WriteKernel, {.threads = 32}, Args{reinterpret_cast<float*>(buffer.data()), n});
    });
  };
  CHECK(launched(31).whole);
  const Ended ended = launched(32);
  CHECK(!ended.whole);
  CHECK_THAT(ended.output, Contains("heap-buffer-overflow"));
}

TEST_CASE("one element past shared memory is found") {
  const Tensors tensors;
  CHECK(Launched(WriteSharedKernel, tensors, 0).whole);
  const Ended ended = Launched(WriteSharedKernel, tensors, 1);
  CHECK(!ended.whole);
  CHECK_THAT(ended.output, Contains("use-after-poison"));
}

}  // namespace
}  // namespace dtrain
