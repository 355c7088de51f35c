// streams.cc - queues of closures, and graphs, which are the same.
// SPDX-License-Identifier: Apache-2.0
#include "testing/host_executor/streams.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dtrain/device/cuda/error.h"
#include "testing/host_executor/stream_steps.h"

namespace dtrain::host_executor {
namespace {

using Works = std::vector<Work>;

struct EmulatedStream {
  int64_t id = 0;
  std::recursive_mutex mutex;  // of what is kept: threads may wait for the same stream
  std::deque<Step> kept;
  std::atomic<int64_t> issued = 0, done = 0;  // `kept` holds what lies between
  Works recorded;
  std::atomic<bool> recording = false;
  std::atomic<bool> broken = false;  // the recording
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

// All streams that exist, by number.
struct Streams {
  std::mutex mutex;
  std::map<int64_t, EmulatedStream*> by_id;
  int64_t next = 1;

  static Streams& Get() {
    static auto* const streams = new Streams();
    return *streams;
  }
};

// Does the first `issued` pieces of the stream's work; false where one has to wait, or where
// another thread is at it. After an exception the rest is forgotten.
bool Advance(EmulatedStream& stream, int64_t issued) {
  if (stream.done >= issued) return true;
  const std::unique_lock lock(stream.mutex, std::try_to_lock);
  if (!lock) return false;
  try {
    while (stream.done < issued) {
      if (!stream.kept.front()()) return false;
      stream.kept.pop_front();
      ++stream.done;
    }
  } catch (...) {
    stream.kept.clear();
    stream.done = stream.issued.load();
    throw;
  }
  return true;
}

void Run(EmulatedStream& stream) {
  while (!Advance(stream, stream.issued)) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void Issue(EmulatedStream& stream, Step step) {
  {
    const std::scoped_lock lock(stream.mutex);
    stream.kept.push_back(std::move(step));
    ++stream.issued;
  }
  if (!StreamsAreLate()) static_cast<void>(Advance(stream, stream.issued));
}

struct Memory {
  std::mutex mutex;
  struct Block {
    size_t bytes = 0;
    bool is_pinned = false;
  };
  std::map<uintptr_t, Block> blocks;

  // The block of this address, or null. With the mutex held.
  const Block* Find(const void* memory) const {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    auto after = blocks.upper_bound(address);
    if (after == blocks.begin()) return nullptr;
    const auto& [begin, block] = *--after;
    return address < begin + block.bytes ? &block : nullptr;
  }

  static Memory& Get() {
    static auto* const memory = new Memory();
    return *memory;
  }
};

}  // namespace

void* NewStream() {
  auto* const stream = new EmulatedStream();
  OwnStreams().insert(stream);
  Streams& streams = Streams::Get();
  const std::scoped_lock lock(streams.mutex);
  stream->id = streams.next++;
  streams.by_id[stream->id] = stream;
  return stream;
}

void DeleteStream(void* stream) {
  OwnStreams().erase(&AsStream(stream));
  {
    Streams& streams = Streams::Get();
    const std::scoped_lock lock(streams.mutex);
    streams.by_id.erase(AsStream(stream).id);
  }
  delete &AsStream(stream);
}

void Submit(void* stream, Work work) {
  if (stream == nullptr) return work();
  EmulatedStream& to = AsStream(stream);
  if (to.recording) {
    to.recorded.push_back(std::move(work));
    return;
  }
  Issue(to, [work = std::move(work)] {
    work();
    return true;
  });
}

void SubmitStep(void* stream, Step step) {
  RefuseWhileRecording("work that waits");
  Issue(AsStream(stream), std::move(step));
}

StreamPoint PointOf(void* stream) {
  if (stream == nullptr) return {};
  return {.stream = AsStream(stream).id, .issued = AsStream(stream).issued};
}

bool HasPassed(const StreamPoint& point) {
  EmulatedStream* stream = nullptr;
  {
    Streams& streams = Streams::Get();
    const std::scoped_lock lock(streams.mutex);
    const auto found = streams.by_id.find(point.stream);
    if (found != streams.by_id.end()) stream = found->second;
  }
  // A stream goes only when its work is done.
  return stream == nullptr || Advance(*stream, point.issued);
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
  if (from.broken.exchange(false)) {
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

void RefuseWhileAnyRecords(const char* call) {
  bool is_refused = false;
  Streams& streams = Streams::Get();
  const std::scoped_lock lock(streams.mutex);
  for (const auto& [id, stream] : streams.by_id) {
    if (!stream->recording) continue;
    stream->broken = true;
    is_refused = true;
  }
  if (is_refused) throw CudaError(std::string(call) + ": cudaErrorStreamCaptureUnsupported");
}

void AddMemory(const void* memory, size_t bytes, bool is_pinned) {
  const std::scoped_lock lock(Memory::Get().mutex);
  Memory::Get().blocks[reinterpret_cast<uintptr_t>(memory)] = {bytes, is_pinned};
}

void RemoveMemory(const void* memory) {
  const std::scoped_lock lock(Memory::Get().mutex);
  Memory::Get().blocks.erase(reinterpret_cast<uintptr_t>(memory));
}

bool IsDeviceMemory(const void* memory) {
  const std::scoped_lock lock(Memory::Get().mutex);
  return Memory::Get().Find(memory) != nullptr;
}

bool IsPinnedMemory(const void* memory) {
  const std::scoped_lock lock(Memory::Get().mutex);
  const auto* const block = Memory::Get().Find(memory);
  return block != nullptr && block->is_pinned;
}

}  // namespace dtrain::host_executor
