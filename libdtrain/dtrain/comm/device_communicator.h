// device_communicator.h - collectives on the memory of GPUs by NCCL, in the order of a stream.
// SPDX-License-Identifier: Apache-2.0
//
//   std::string why;
//   const auto gpus = MakeDeviceCommunicator(comm, device, &why);
//   if (!gpus) LogInfo("exchanges go through the host's memory: " + why);
//   RunBehind(gpus->stream(), compute);   // the data were computed there
//   gpus->AllReduce(data, n, DType::kBFloat16, ReduceOp::kSum);
//   RunBehind(compute, gpus->stream());   // later work there sees the sums
//   gpus->Wait();                         // the host waits; a time-out names late ranks
//
// All ranks issue the same collectives in the same order with the same counts and types; Wait()
// finds differences. Results have the same bits on all ranks. NCCL chooses the order of additions
// by the connections of the GPUs, so sums differ from those of Communicator in their last bits.
//
// A device communicator belongs to one thread. A CommError names the rank and the collective. After
// it all collectives of this rank are aborted and the job must end.
#ifndef DTRAIN_COMM_DEVICE_COMMUNICATOR_H_
#define DTRAIN_COMM_DEVICE_COMMUNICATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/stream_order.h"  // IWYU pragma: export

namespace dtrain {

// True for types that have no averages and no NaN.
inline bool IsInteger(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kUint8;
}

class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;

  // The stream of the collectives, and of copies between them. It differs from the stream of the
  // computation, so that both run at the same time.
  virtual Stream& stream() = 0;
  // "NCCL 2.28.9, hierarchical", for logs.
  virtual std::string description() const = 0;

  // Reduces device memory in place. ReduceOp::kBitAnd is refused: only Communicator has it. An
  // average divides before it adds, so that 16-bit sums stay in range. Minima and maxima of floats
  // ignore NaN, unlike those of Communicator.
  virtual void AllReduce(void* data, int64_t count, DType dtype, ReduceOp op) = 0;
  // data: [size * count]. Elements [r * count, (r + 1) * count) of rank r become the reduction of
  // these elements of all ranks. The other elements are unspecified afterwards.
  virtual void ReduceScatter(void* data, int64_t count, DType dtype, ReduceOp op) = 0;
  // data: [size * count]. Every rank provides elements [rank * count, (rank + 1) * count).
  virtual void AllGather(void* data, int64_t count, DType dtype) = 0;
  virtual void Broadcast(void* data, int64_t bytes, int root) = 0;
  // As Communicator::StartAllToAllV(), between memories of GPUs. Not within Group().
  virtual void AllToAll(const void* from, std::span<const int64_t> from_offsets, void* to,
                        std::span<const int64_t> to_offsets) = 0;
  // The collectives that issue() issues travel together, in any order. This is faster for many
  // small ones.
  virtual void Group(const std::function<void()>& issue) = 0;

  // Throws CommError if a collective has failed by now.
  virtual void Poll() = 0;
  // Returns when everything issued has arrived. Throws CommError, which names the missing ranks,
  // after CommunicatorOptions::timeout_seconds without progress. Throws it also if ranks have
  // issued different collectives.
  virtual void Wait() = 0;

 protected:
  DeviceCommunicator() = default;
};

// Makes a device communicator for the ranks of `comm`, which outlives it. Each rank passes its own
// GPU. All ranks call it. An allreduce takes the path that comm.options().algorithm says. Returns
// null if NCCL does not work on some rank; then `why`, the same text on all ranks, names the rank
// and the reason. Throws CommError if the job failed meanwhile, or if the first allreduce did not
// work.
std::unique_ptr<DeviceCommunicator> MakeDeviceCommunicator(Communicator& comm, const Device& device,
                                                           std::string* why);

// "2.28.9", or CommunicationError, which says what to do, if this process cannot load NCCL.
StatusOr<std::string> NcclVersion();

}  // namespace dtrain

#endif  // DTRAIN_COMM_DEVICE_COMMUNICATOR_H_
