// streams.cc - queues of closures, and graphs, which are the same.
// SPDX-License-Identifier: Apache-2.0
#include "testing/host_executor/streams.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/device/cuda/error.h"

namespace dtrain::host_executor {
namespace {

using Works = std::vector<Work>;

struct EmulatedStream {
  Works kept;
  Works recorded;
  bool recording = false;
  bool broken = false;  // the recording
};
using EmulatedGraph = std::shared_ptr<const Works>;

bool StreamsAreLate() {
  static const bool late = [] {
    const char* const mode = std::getenv("DTRAIN_EXECUTOR_STREAMS");
    return mode != nullptr && std::string(mode) == "late";
  }();
  return late;
}

// These two are never destroyed: static objects free device memory when the program ends.
std::set<EmulatedStream*>& OwnStreams() {
  thread_local auto* const streams = new std::set<EmulatedStream*>();
  return *streams;
}

EmulatedStream& AsStream(void* stream) { return *static_cast<EmulatedStream*>(stream); }

void Run(EmulatedStream& stream) {
  Works works = std::exchange(stream.kept, {});
  for (const Work& work : works) work();
}

struct Memory {
  std::mutex mutex;
  std::map<uintptr_t, size_t> blocks;

  static Memory& Get() {
    static auto* const memory = new Memory();
    return *memory;
  }
};

}  // namespace

void* NewStream() {
  auto* const stream = new EmulatedStream();
  OwnStreams().insert(stream);
  return stream;
}

void DeleteStream(void* stream) {
  OwnStreams().erase(&AsStream(stream));
  delete &AsStream(stream);
}

void Submit(void* stream, Work work) {
  if (stream == nullptr) return work();
  EmulatedStream& to = AsStream(stream);
  if (to.recording) {
    to.recorded.push_back(std::move(work));
  } else if (StreamsAreLate()) {
    to.kept.push_back(std::move(work));
  } else {
    work();
  }
}

void Finish(void* stream) {
  if (stream == nullptr) return FinishAll();
  if (AsStream(stream).recording) RefuseWhileRecording("cudaStreamSynchronize");
  Run(AsStream(stream));
}

void FinishAll() {
  RefuseWhileRecording("cudaDeviceSynchronize");
  for (EmulatedStream* stream : OwnStreams()) Run(*stream);
}

void BeginRecording(void* stream) {
  RefuseWhileRecording("cudaStreamBeginCapture");
  AsStream(stream).recording = true;
}

bool IsRecording(void* stream) { return stream != nullptr && AsStream(stream).recording; }

void* EndRecording(void* stream) {
  EmulatedStream& from = AsStream(stream);
  from.recording = false;
  Works works = std::exchange(from.recorded, {});
  if (std::exchange(from.broken, false)) {
    throw CudaError("cudaStreamEndCapture: cudaErrorStreamCaptureInvalidated");
  }
  return new EmulatedGraph(std::make_shared<const Works>(std::move(works)));
}

void SubmitGraph(void* graph, void* stream) {
  Submit(stream, [works = *static_cast<EmulatedGraph*>(graph)] {
    for (const Work& work : *works) work();
  });
}

void DeleteGraph(void* graph) { delete static_cast<EmulatedGraph*>(graph); }

void RefuseWhileRecording(const char* call) {
  for (EmulatedStream* stream : OwnStreams()) {
    if (!stream->recording) continue;
    stream->broken = true;
    throw CudaError(std::string(call) + ": cudaErrorStreamCaptureUnsupported");
  }
}

void AddMemory(const void* memory, size_t bytes) {
  const std::scoped_lock lock(Memory::Get().mutex);
  Memory::Get().blocks[reinterpret_cast<uintptr_t>(memory)] = bytes;
}

void RemoveMemory(const void* memory) {
  const std::scoped_lock lock(Memory::Get().mutex);
  Memory::Get().blocks.erase(reinterpret_cast<uintptr_t>(memory));
}

bool IsDeviceMemory(const void* memory) {
  const std::scoped_lock lock(Memory::Get().mutex);
  const auto& blocks = Memory::Get().blocks;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return false;
  const auto& [begin, bytes] = *--after;
  return address < begin + bytes;
}

}  // namespace dtrain::host_executor
