// transport_communicator.cc - plans of the collectives and the one wait loop.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/transport_communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/check.h"
#include "dtrain/base/timer.h"

namespace dtrain::internal {
namespace {

// Four tags per collective; far more collectives than are ever in flight have tags of their own.
constexpr int kTagsInTurn = 1 << 18;
constexpr int kWatchdogTag = 4 * kTagsInTurn;

// Spins while an answer may be on its way, then gives the core to whoever can use it: on a free
// core a yield costs no more than a spin. Long waits sleep.
class Backoff {
 public:
  void Reset() { timer_.Restart(); }
  void Pause() {
    const double seconds = timer_.Seconds();
    if (seconds < 2e-6) return;
    if (seconds < 2e-3) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  Timer timer_;
};

// Starts slices at multiples of 16 elements, a cache line of floats.
std::vector<int64_t> EvenOffsets(int64_t begin, int64_t end, size_t slices) {
  std::vector<int64_t> offsets;
  const int64_t n = static_cast<int64_t>(slices);
  for (int64_t s = 0; s < n; ++s) offsets.push_back(begin + (end - begin) * s / n / 16 * 16);
  offsets.push_back(end);
  return offsets;
}

int PlaceOf(const std::vector<int>& group, int rank) {
  return static_cast<int>(std::find(group.begin(), group.end(), rank) - group.begin());
}

}  // namespace

class TransportCommunicator::HandleImpl final : public Handle {
 public:
  HandleImpl(TransportCommunicator* comm, std::shared_ptr<Outstanding> outstanding)
      : comm_(comm), outstanding_(std::move(outstanding)) {}
  bool Test() override {
    if (!outstanding_->done) comm_->Poll();
    return outstanding_->done;
  }
  void Wait() override { comm_->Wait(*outstanding_); }

 private:
  TransportCommunicator* comm_;
  std::shared_ptr<Outstanding> outstanding_;
};

TransportCommunicator::TransportCommunicator(std::unique_ptr<Transport> transport, int rank,
                                             std::vector<std::string> hosts,
                                             const CommunicatorOptions& options)
    : Communicator(rank, hosts),
      transport_(std::move(transport)),
      options_(options),
      watchdog_(transport_.get(), rank, std::move(hosts), kWatchdogTag, options) {
  DT_CHECK(options_.piece_bytes > 0 &&
           options_.piece_bytes <= static_cast<int64_t>(Transport::kMaxBytes));
  DT_CHECK_LE(options_.small_bytes, static_cast<int64_t>(Transport::kMaxBytes));
  FindGroups();
}

void TransportCommunicator::FindGroups() {
  std::map<std::string, std::vector<int>> by_host;
  for (int r = 0; r < size(); ++r) {
    world_group_.push_back(r);
    by_host[host(r)].push_back(r);
  }
  host_group_ = by_host[host(rank())];
  const bool even = std::all_of(by_host.begin(), by_host.end(), [&](const auto& entry) {
    return entry.second.size() == host_group_.size();
  });
  if (!even || by_host.size() < 2 || host_group_.size() < 2) return;
  for (const auto& [name, ranks] : by_host) {
    cross_group_.push_back(ranks[static_cast<size_t>(local_rank())]);
  }
  std::sort(cross_group_.begin(), cross_group_.end());
}

ExchangePlan TransportCommunicator::WorldPlan(void* data, int64_t count, DType dtype, ReduceOp op) {
  DT_CHECK_GE(count, 0);
  DT_CHECK(count == 0 || data != nullptr);
  const int others = std::max(size() - 1, 1);
  return {.group = world_group_,
          .me = rank(),
          .data = static_cast<std::byte*>(data),
          .offsets = EvenOffsets(0, count, world_group_.size()),
          .dtype = dtype,
          .op = op,
          .divisor = op == ReduceOp::kAverage ? size() : 1,
          .tag = static_cast<int>(sequence_ % kTagsInTurn) * 4,
          // All peers' pieces together stay in the second-level cache.
          .piece_bytes = std::max<int64_t>(options_.piece_bytes / ((others + 1) / 2), 4096)};
}

std::unique_ptr<Operation> TransportCommunicator::HierarchicalAllReduce(const ExchangePlan& world) {
  ExchangePlan local = world;
  local.group = host_group_;
  local.me = local_rank();
  local.offsets = EvenOffsets(0, world.offsets.back(), host_group_.size());
  local.divisor = 1;
  local.op = world.op == ReduceOp::kAverage ? ReduceOp::kSum : world.op;
  local.reduce = true;
  ExchangePlan cross = world;
  const auto place = static_cast<size_t>(local.me);
  cross.group = cross_group_;
  cross.me = PlaceOf(cross_group_, rank());
  cross.offsets = EvenOffsets(local.offsets[place], local.offsets[place + 1], cross_group_.size());
  cross.reduce = cross.gather = true;
  ExchangePlan back = local;
  back.reduce = false;
  back.gather = true;
  std::vector<Sequence::Maker> makers;
  for (const ExchangePlan& plan : {local, cross, back}) {
    makers.push_back([this, plan] {
      return std::make_unique<SliceExchange>(transport_.get(), &scratch_, plan);
    });
  }
  return std::make_unique<Sequence>(std::move(makers));
}

std::unique_ptr<Handle> TransportCommunicator::StartAllReduce(void* data, int64_t count,
                                                              DType dtype, ReduceOp op) {
  DT_CHECK(op != ReduceOp::kAverage ||
           (dtype != DType::kInt32 && dtype != DType::kInt64 && dtype != DType::kUint8))
      << "an average needs a floating type";
  ExchangePlan plan = WorldPlan(data, count, dtype, op);
  std::unique_ptr<Operation> operation;
  if (count * static_cast<int64_t>(SizeOf(dtype)) <= options_.small_bytes) {
    operation = std::make_unique<SmallAllReduce>(transport_.get(), &scratch_, std::move(plan));
  } else if (!cross_group_.empty()) {
    operation = HierarchicalAllReduce(plan);
  } else {
    plan.reduce = plan.gather = true;
    operation = std::make_unique<SliceExchange>(transport_.get(), &scratch_, std::move(plan));
  }
  return std::make_unique<HandleImpl>(this, Start("AllReduce", std::move(operation)));
}

void TransportCommunicator::Broadcast(void* data, int64_t bytes, int root) {
  DT_CHECK(root >= 0 && root < size()) << "root " << root << " of " << size() << " ranks";
  ExchangePlan plan = WorldPlan(data, bytes, DType::kUint8, ReduceOp::kSum);
  std::rotate(plan.group.begin(), plan.group.begin() + root, plan.group.end());
  plan.me = (rank() - root + size()) % size();
  plan.piece_bytes = options_.piece_bytes;
  Wait(*Start("Broadcast", std::make_unique<TreeBroadcast>(transport_.get(), plan)));
}

void TransportCommunicator::ReduceScatter(void* data, std::span<const int64_t> offsets, DType dtype,
                                          ReduceOp op) {
  DT_CHECK_EQ(offsets.size(), static_cast<size_t>(size()) + 1);
  ExchangePlan plan = WorldPlan(data, offsets.back(), dtype, op);
  plan.offsets.assign(offsets.begin(), offsets.end());
  plan.reduce = true;
  Wait(*Start("ReduceScatter",
              std::make_unique<SliceExchange>(transport_.get(), &scratch_, std::move(plan))));
}

void TransportCommunicator::AllGatherV(void* data, std::span<const int64_t> offsets) {
  DT_CHECK_EQ(offsets.size(), static_cast<size_t>(size()) + 1);
  ExchangePlan plan = WorldPlan(data, offsets.back(), DType::kUint8, ReduceOp::kSum);
  plan.offsets.assign(offsets.begin(), offsets.end());
  plan.gather = true;
  Wait(*Start("AllGather",
              std::make_unique<SliceExchange>(transport_.get(), &scratch_, std::move(plan))));
}

void TransportCommunicator::Barrier() {
  uint8_t token = 0;
  ExchangePlan plan = WorldPlan(&token, 1, DType::kUint8, ReduceOp::kMax);
  Wait(*Start("Barrier",
              std::make_unique<SmallAllReduce>(transport_.get(), &scratch_, std::move(plan))));
}

std::shared_ptr<TransportCommunicator::Outstanding> TransportCommunicator::Start(
    const char* name, std::unique_ptr<Operation> operation) {
  auto outstanding = std::make_shared<Outstanding>();
  outstanding->operation = std::move(operation);
  outstanding->state.sequence = sequence_++;
  std::strncpy(outstanding->state.collective, name, sizeof(WaitState::collective) - 1);
  outstanding_.push_back(outstanding);
  Poll();
  return outstanding;
}

void TransportCommunicator::Poll() {
  if (!failure_.empty()) throw CommError(failure_);
  try {
    for (const auto& outstanding : outstanding_) {
      outstanding->done = outstanding->operation->Progress();
    }
  } catch (const CommError& error) {
    failure_ = absl::StrCat("rank ", rank(), " (host ", host(rank()), "): ", error.what());
    throw CommError(failure_);
  }
  std::erase_if(outstanding_, [](const auto& outstanding) { return outstanding->done; });
}

void TransportCommunicator::Wait(const Outstanding& outstanding) {
  Backoff backoff;
  Timer idle;
  int64_t finished = transport_->finished();
  while (!outstanding.done) {
    Poll();
    if (transport_->finished() != finished) {
      finished = transport_->finished();
      backoff.Reset();
      idle.Restart();
      continue;
    }
    if (outstanding.done) return;
    backoff.Pause();
    if (idle.Seconds() < 0.1) continue;
    std::vector<int> missing;
    outstanding.operation->AddMissing(&missing);
    try {
      watchdog_.OnIdle(outstanding.state, idle.Seconds(), missing);
    } catch (const CommError& error) {
      failure_ = error.what();
      throw;
    }
    // What the watchdog itself receives is no progress of the collective.
    finished = transport_->finished();
  }
}

}  // namespace dtrain::internal
