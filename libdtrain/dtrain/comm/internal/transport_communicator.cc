// transport_communicator.cc - labels and operations of the collectives, and what a start agrees on.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/transport_communicator.h"

#include <algorithm>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/flight_records.h"
#include "dtrain/comm/gather.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/comm/internal/shared_segment.h"

namespace dtrain::internal {
namespace {

int64_t KindOf(DType dtype, ReduceOp op) {
  return 16 * static_cast<int64_t>(dtype) + static_cast<int64_t>(op);
}

}  // namespace

TransportCommunicator::TransportCommunicator(std::unique_ptr<Transport> transport, int rank,
                                             std::vector<std::string> hosts,
                                             const CommunicatorOptions& options)
    : Communicator(rank, std::move(hosts), options),
      transport_(std::move(transport)),
      planner_(transport_.get(), &channels_, topology(), options),
      runner_(transport_.get(), &channels_, topology(), options, HeartbeatOf(*this),
              RecordsOf(*this),
              /*context=*/0) {
  SetUp(/*is_world=*/true);
}

TransportCommunicator::TransportCommunicator(TransportCommunicator& whole,
                                             std::span<const int> ranks, int context)
    : Communicator(whole, ranks),
      transport_(whole.transport_->Split(ranks, context)),
      planner_(transport_.get(), &channels_, topology(), options()),
      runner_(transport_.get(), &channels_, topology(), options(), HeartbeatOf(*this),
              RecordsOf(*this), context) {
  SetUp(/*is_world=*/false);
}

void TransportCommunicator::SetUp(bool is_world) {
  DT_CHECK(options().piece_bytes > 0 &&
           options().piece_bytes <= static_cast<int64_t>(Transport::kMaxBytes));
  DT_CHECK_LE(options().small_bytes, static_cast<int64_t>(Transport::kMaxBytes));
  DT_CHECK_GE(options().slot_bytes, 4096);
  // A slot needs a cache line for each rank of the host; if it has fewer, the ranks send messages.
  const int64_t line_bytes = 64 * int64_t{topology().local_size()};
  if (options().shared_memory && options().slot_bytes >= line_bytes) ShareMemory();
  planner_.SetHierarchical(ChooseHierarchical());
  runner_.EndSetUp(/*reports=*/is_world);
  setup_bytes_ = -bytes_sent();
}

// The first rank of a host makes the memory and tells the others how to open it. It is used if all
// of them could.
void TransportCommunicator::ShareMemory() {
  const int members = topology().local_size();
  const int me = topology().local_rank();
  const size_t bytes = HostChannels::Bytes(members, options().slot_bytes);
  std::shared_ptr<SharedSegment> segment;
  SharedSegment::Descriptor descriptor;
  if (me == 0 && members > 1) segment = SharedSegment::Create(bytes);
  if (segment) descriptor = segment->descriptor();
  runner_
      .Start({.name = "Broadcast"},
             planner_.HostBroadcast(&descriptor, static_cast<int64_t>(sizeof(descriptor)),
                                    runner_.sequence()))
      ->Wait();
  if (me > 0) segment = SharedSegment::Open(descriptor, bytes);
  uint8_t seen = segment ? 1 : 0;
  runner_.Start({.name = "AllReduce"}, planner_.HostMinimum(&seen, runner_.sequence()))->Wait();
  if (segment && me == 0) segment->Seal();
  if (seen != 0) channels_.Open(segment, members, me, options().slot_bytes);
}

double TransportCommunicator::SecondsOfAllReduce(std::span<float> data) {
  double best = 1e30;
  for (int i = 0; i < 4; ++i) {
    Barrier();
    const Timer timer;
    AllReduce(data, ReduceOp::kSum);
    if (i > 0) best = std::min(best, timer.Seconds());
  }
  return AllReduceValue(best, ReduceOp::kMax);
}

bool TransportCommunicator::ChooseHierarchical() {
  if (!planner_.CanBeHierarchical()) return false;
  // The first rank decides for all. Ranks that decided differently would wait for each other.
  AllReduceAlgorithm algorithm = options().algorithm;
  Broadcast(&algorithm, sizeof(algorithm), /*root=*/0);
  if (algorithm == AllReduceAlgorithm::kFlat) return false;
  if (algorithm != AllReduceAlgorithm::kMeasure) return true;
  std::vector<float> data(1 << 20);
  planner_.SetHierarchical(false);
  const double flat = SecondsOfAllReduce(data);
  planner_.SetHierarchical(true);
  return SecondsOfAllReduce(data) <= flat;
}

int64_t TransportCommunicator::bytes_sent() const {
  return setup_bytes_ + transport_->bytes_sent() + channels_.bytes_sent();
}

std::unique_ptr<Handle> TransportCommunicator::StartAllReduce(void* data, int64_t count,
                                                              DType dtype, ReduceOp op) {
  auto operation = planner_.AllReduce(data, count, dtype, op, runner_.sequence());
  return runner_.Start({.name = "AllReduce",
                        .bytes = count * static_cast<int64_t>(SizeOf(dtype)),
                        .kind = KindOf(dtype, op)},
                       std::move(operation));
}

std::unique_ptr<Handle> TransportCommunicator::StartBroadcast(void* data, int64_t bytes, int root) {
  auto operation = planner_.Broadcast(data, bytes, root, runner_.sequence());
  return runner_.Start({.name = "Broadcast", .bytes = bytes, .kind = root}, std::move(operation));
}

std::unique_ptr<Handle> TransportCommunicator::StartReduceScatter(void* data,
                                                                  std::span<const int64_t> offsets,
                                                                  DType dtype, ReduceOp op) {
  auto operation = planner_.ReduceScatter(data, offsets, dtype, op, runner_.sequence());
  return runner_.Start({.name = "ReduceScatter",
                        .bytes = offsets.back() * static_cast<int64_t>(SizeOf(dtype)),
                        .kind = KindOf(dtype, op)},
                       std::move(operation));
}

std::unique_ptr<Handle> TransportCommunicator::StartAllGatherV(void* data,
                                                               std::span<const int64_t> offsets) {
  auto operation = planner_.AllGather(data, offsets, runner_.sequence());
  return runner_.Start({.name = "AllGather", .bytes = offsets.back()}, std::move(operation));
}

std::unique_ptr<Handle> TransportCommunicator::StartAllToAllV(const void* from,
                                                              std::span<const int64_t> from_offsets,
                                                              void* to,
                                                              std::span<const int64_t> to_offsets) {
  auto operation = planner_.AllToAll(from, from_offsets, to, to_offsets, runner_.sequence());
  return runner_.Start(
      {.name = "AllToAll", .bytes = from_offsets.back() + to_offsets.back(), .same_bytes = false},
      std::move(operation));
}

std::unique_ptr<Handle> TransportCommunicator::StartBarrier() {
  return runner_.Start({.name = "Barrier"}, planner_.Barrier(runner_.sequence()));
}

std::unique_ptr<Communicator> TransportCommunicator::Split(int color) {
  struct Vote {
    int color;
    int context;
  };
  const std::vector<Vote> votes = AllGather(*this, Vote{color, transport_->next_context()});
  int context = 0;
  for (const Vote& vote : votes) context = std::max(context, vote.context);
  transport_->RaiseNextContext(context + 1);
  if (color < 0) return nullptr;
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r) {
    if (votes[static_cast<size_t>(r)].color == color) ranks.push_back(r);
  }
  return std::make_unique<TransportCommunicator>(*this, ranks, context);
}

}  // namespace dtrain::internal
