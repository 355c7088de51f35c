// streams.h - the emulated GPU's streams: work that runs when issued, or later, or is recorded.
// SPDX-License-Identifier: Apache-2.0
//
// Work runs when it is issued, which no real stream promises. With DTRAIN_EXECUTOR_STREAMS=late in
// the environment a stream keeps its work until somebody waits for it, as late as a real one may
// be: a host that reads or reuses memory without waiting then sees what it did.
#ifndef DTRAIN_TESTING_HOST_EXECUTOR_STREAMS_H_
#define DTRAIN_TESTING_HOST_EXECUTOR_STREAMS_H_

#include <cstddef>
#include <functional>

namespace dtrain::host_executor {

using Work = std::function<void()>;

void* NewStream();
void DeleteStream(void* stream);
// Runs, keeps or records the work. A null stream runs it.
void Submit(void* stream, Work work);
// Runs what the stream, or all streams this thread made, have kept. CudaError while recording.
void Finish(void* stream);
void FinishAll();

// As cudaStreamBeginCapture and so on: what may not be recorded throws CudaError, and EndRecording
// throws once more.
void BeginRecording(void* stream);
bool IsRecording(void* stream);
void* EndRecording(void* stream);  // a graph
void SubmitGraph(void* graph, void* stream);
void DeleteGraph(void* graph);
// Throws CudaError where this thread records, as calls do that a recording must not hold.
void RefuseWhileRecording(const char* call);
// Where any thread does, as calls do that concern the whole device.
void RefuseWhileAnyRecords(const char* call);

// Memory the device reads and writes itself; all other memory is copied by the host.
void AddMemory(const void* memory, size_t bytes, bool is_pinned = false);
void RemoveMemory(const void* memory);
bool IsDeviceMemory(const void* memory);
// Whether it is the host's, which the device reads and writes, too.
bool IsPinnedMemory(const void* memory);

}  // namespace dtrain::host_executor

#endif  // DTRAIN_TESTING_HOST_EXECUTOR_STREAMS_H_
