// stream_test.cc - copies nobody waits for, points in a stream, and recorded work.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/stream.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "dtrain/device/buffer.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/cuda/error.h"
#include "dtrain/device/event.h"
#include "dtrain/device/graph.h"
#include "dtrain/device/stream_order.h"
#include "testing/catch.h"
#include "testing/test_device.h"

namespace dtrain {
namespace {

using testing::TestDevice;

std::vector<int32_t> Numbers(size_t count, int32_t first) {
  std::vector<int32_t> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = first + static_cast<int32_t>(i);
  return numbers;
}

std::vector<int32_t> Read(const Buffer& buffer, Stream& stream) {
  std::vector<int32_t> numbers(buffer.bytes() / sizeof(int32_t));
  CopyToHost(numbers.data(), buffer.data(), buffer.bytes(), stream);
  return numbers;
}

TEST_CASE("a new buffer holds zeros") {
  Stream stream(TestDevice());
  CHECK(Read(Buffer(TestDevice(), 4000), stream) == std::vector<int32_t>(1000));
}

TEST_CASE("host memory may be written anew as soon as its copy to the device is issued") {
  Stream stream(TestDevice());
  // Several times what the staging holds; one copy is larger than it ever takes.
  const std::vector<size_t> counts = {1, 1000, 100000, 262144, 3, 200000, 1 << 20, 2 << 20, 77, 0};
  for (int round = 0; round < 3; ++round) {
    std::vector<Buffer> buffers;
    std::vector<int32_t> host;
    for (size_t i = 0; i < counts.size(); ++i) {
      buffers.emplace_back(TestDevice(), std::max<size_t>(counts[i], 1) * sizeof(int32_t));
      host = Numbers(counts[i], static_cast<int32_t>(i) * 7);
      CopyToDevice(buffers[i].data(), host.data(), counts[i] * sizeof(int32_t), stream);
      std::fill(host.begin(), host.end(), -1);
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      std::vector<int32_t> expected = Numbers(counts[i], static_cast<int32_t>(i) * 7);
      if (expected.empty()) expected = {0};
      CHECK(Read(buffers[i], stream) == expected);
    }
  }
}

TEST_CASE("behind an event lies everything that was issued before it") {
  Stream stream(TestDevice());
  const Buffer device(TestDevice(), 4096);
  const Buffer pinned(TestDevice(), 4096, ArenaMemory::kPinned);
  Event event;
  event.Wait();  // never recorded: nothing to wait for
  for (int32_t round = 0; round < 3; ++round) {
    const std::vector<int32_t> numbers = Numbers(1024, round);
    CopyToDevice(device.data(), numbers.data(), 4096, stream);
    CopyOnDevice(pinned.data(), device.data(), 4096, stream);
    event.Record(stream);
    event.Wait();
    const auto* const copied = reinterpret_cast<const int32_t*>(pinned.data());
    CHECK(std::equal(numbers.begin(), numbers.end(), copied));
  }
}

TEST_CASE("a stream that waits for another one sees all that was issued there, and no more") {
  Stream first(TestDevice()), second(TestDevice());
  const Buffer a(TestDevice(), 4096), b(TestDevice(), 4096), c(TestDevice(), 4096);
  for (int32_t round = 0; round < 3; ++round) {
    const std::vector<int32_t> numbers = Numbers(1024, round), later = Numbers(1024, -round);
    CopyToDevice(a.data(), numbers.data(), 4096, first);
    RunBehind(second, first);
    CopyOnDevice(b.data(), a.data(), 4096, second);
    RunBehind(first, second);
    CopyToDevice(a.data(), later.data(), 4096, first);
    CopyOnDevice(c.data(), b.data(), 4096, first);
    CHECK(Read(c, first) == numbers);
    CHECK(Read(b, second) == numbers);
    CHECK(Read(a, second) == later);
  }
}

TEST_CASE("a mark tells without waiting whether the device has passed it") {
  Stream stream(TestDevice());
  const Buffer device(TestDevice(), 4096);
  const std::vector<int32_t> numbers = Numbers(1024, 1);
  CopyToDevice(device.data(), numbers.data(), 4096, stream);
  const StreamMark mark(stream);
  stream.Synchronize();
  CHECK(mark.HasPassed());
}

TEST_CASE("recorded work runs when it is launched, each time on what memory then holds") {
  if (TestDevice().type == DeviceType::kCpu) return;
  Stream stream(TestDevice());
  const Buffer a(TestDevice(), 4096), b(TestDevice(), 4096);
  const Graph graph(stream, [&] { CopyOnDevice(b.data(), a.data(), 4096, stream); });
  CHECK(Read(b, stream) == std::vector<int32_t>(1024));
  for (int32_t round = 1; round < 4; ++round) {
    const std::vector<int32_t> numbers = Numbers(1024, round);
    CopyToDevice(a.data(), numbers.data(), 4096, stream);
    graph.Launch(stream);
    CHECK(Read(b, stream) == numbers);
  }
}

TEST_CASE("what cannot be repeated is not recorded, and the stream goes on") {
  if (TestDevice().type == DeviceType::kCpu) return;
  Stream stream(TestDevice());
  const Buffer a(TestDevice(), 64);
  const std::vector<int32_t> numbers = Numbers(16, 5);
  CHECK_THROWS_AS(Graph(stream, [&] { stream.Synchronize(); }), CudaError);
  CHECK_THROWS_AS(Graph(stream, [&] { CopyToDevice(a.data(), numbers.data(), 64, stream); }),
                  CudaError);
  CHECK_THROWS_AS(Graph(stream, [&] { stream.Scratch(size_t{64} << 20, "test"); }), CudaError);
  CopyToDevice(a.data(), numbers.data(), 64, stream);
  CHECK(Read(a, stream) == numbers);
}

TEST_CASE("while one thread records, another makes buffers and waits for its own stream") {
  if (TestDevice().type == DeviceType::kCpu) return;
  Stream stream(TestDevice());
  const Buffer a(TestDevice(), 4096), b(TestDevice(), 4096);
  std::vector<int32_t> read;
  const Graph graph(stream, [&] {
    CopyOnDevice(b.data(), a.data(), 4096, stream);
    std::thread([&] {
      Stream other(TestDevice());
      read = Read(Buffer(TestDevice(), 4096), other);
    }).join();
  });
  CHECK(read == std::vector<int32_t>(1024));
  graph.Launch(stream);
  CHECK(Read(b, stream) == std::vector<int32_t>(1024));
}

TEST_CASE("waiting for the whole device fails while another thread records, and so does that") {
  if (TestDevice().type == DeviceType::kCpu) return;
  Stream stream(TestDevice());
  const Buffer a(TestDevice(), 4096), b(TestDevice(), 4096);
  bool is_refused = false;
  CHECK_THROWS_AS(Graph(stream,
                        [&] {
                          CopyOnDevice(b.data(), a.data(), 4096, stream);
                          std::thread([&] {
                            try {
                              SynchronizeDevice(TestDevice());
                            } catch (const CudaError&) {
                              is_refused = true;
                            }
                          }).join();
                        }),
                  CudaError);
  CHECK(is_refused);
  CHECK(Read(b, stream) == std::vector<int32_t>(1024));
}

}  // namespace
}  // namespace dtrain
