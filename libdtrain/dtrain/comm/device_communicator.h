// device_communicator.h - collectives on a GPU's memory, in the order of a stream: NCCL.
// SPDX-License-Identifier: Apache-2.0
//
//   std::string why;
//   const auto gpus = MakeDeviceCommunicator(comm, device, &why);
//   if (!gpus) LogInfo("through the host's memory: " + why);
//   RunBehind(gpus->stream(), compute);   // what is summed was computed there
//   gpus->AllReduce(data, n, DType::kBFloat16, ReduceOp::kSum);
//   RunBehind(compute, gpus->stream());   // what comes next there sees the sums
//   gpus->Wait();                         // and the host: with a time-out that names who is late
//
// All ranks issue the same collectives in the same order with the same counts and types; Wait()
// finds out where they did not. Results are the same bits on all ranks. Sums are in NCCL's order,
// which depends on how GPUs are connected: not those of Communicator.
//
// A device communicator belongs to one thread. After CommError, whose text names the rank and the
// collective, all collectives of this rank are aborted and the job must be ended.
#ifndef DTRAIN_COMM_DEVICE_COMMUNICATOR_H_
#define DTRAIN_COMM_DEVICE_COMMUNICATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/stream_order.h"  // IWYU pragma: export

namespace dtrain {

// Whose averages are refused, and whose minima and maxima have no NaN.
inline bool IsInteger(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kUint8;
}

class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;

  // The stream of the collectives, and of what is done between them. Not the one of the
  // computation, so that both go on at once.
  virtual Stream& stream() = 0;
  // "NCCL 2.28.9, hierarchical", for logs.
  virtual std::string description() const = 0;

  // In place, on device memory. ReduceOp::kBitAnd is for the host's communicators alone; an average
  // divides before it adds, so that 16-bit sums stay in range. Unlike theirs, minima and maxima of
  // floats pass over NaN.
  virtual void AllReduce(void* data, int64_t count, DType dtype, ReduceOp op) = 0;
  // data: [size * count]. Elements [r * count, (r + 1) * count) of rank r become the reduction of
  // all ranks' elements there; the others are unspecified afterwards.
  virtual void ReduceScatter(void* data, int64_t count, DType dtype, ReduceOp op) = 0;
  // data: [size * count]. Every rank brings elements [rank * count, (rank + 1) * count).
  virtual void AllGather(void* data, int64_t count, DType dtype) = 0;
  virtual void Broadcast(void* data, int64_t bytes, int root) = 0;
  // What issue() issues travels together, which for many small collectives is faster. In no order
  // among each other.
  virtual void Group(const std::function<void()>& issue) = 0;

  // CommError where a collective has failed by now.
  virtual void Poll() = 0;
  // Returns when everything issued has arrived. CommError where it has not after
  // CommunicatorOptions::timeout_seconds without progress, with the ranks that are missing, and
  // where the ranks have issued different collectives.
  virtual void Wait() = 0;

 protected:
  DeviceCommunicator() = default;
};

// Of the ranks of `comm`, which outlives it, each with its own GPU `device`. Collective. An
// allreduce takes the way that comm.options().algorithm says. Null where NCCL does not work on any
// one rank, and then `why`, the same text on all, names the rank and the reason. CommError where
// the job failed meanwhile or the first allreduce did not work.
std::unique_ptr<DeviceCommunicator> MakeDeviceCommunicator(Communicator& comm, const Device& device,
                                                           std::string* why);

// "2.28.9"; CommunicationError, which says what to do, where this process cannot load it.
StatusOr<std::string> NcclVersion();

}  // namespace dtrain

#endif  // DTRAIN_COMM_DEVICE_COMMUNICATOR_H_
