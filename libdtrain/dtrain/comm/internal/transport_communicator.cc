// transport_communicator.cc - plans of the collectives and the one wait loop.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/transport_communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/collective_checks.h"
#include "dtrain/comm/internal/rank_groups.h"
#include "dtrain/comm/internal/wait_mark.h"

namespace dtrain::internal {
namespace {

// Four tags per collective; far more collectives than are ever in flight have tags of their own.
constexpr int kTagsInTurn = 1 << 12;
constexpr int kWaitWatchTag = 4 * kTagsInTurn;
static_assert(kWaitWatchTag < Transport::kTags);

// What a rank may send to all others in one exchange of everything where these are on several
// hosts: as long as 1 Gb/s takes for what two more messages wait for each other.
constexpr int64_t kSmallBetweenHosts = 16 << 10;

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
  std::vector<int> MissingRanks() const override {
    std::vector<int> ranks;
    if (!outstanding_->done) outstanding_->operation->AddMissing(&ranks);
    return ranks;
  }

 private:
  TransportCommunicator* comm_;
  std::shared_ptr<Outstanding> outstanding_;
};

TransportCommunicator::TransportCommunicator(std::unique_ptr<Transport> transport, int rank,
                                             std::vector<std::string> hosts,
                                             const CommunicatorOptions& options)
    : Communicator(rank, std::move(hosts), options),
      transport_(std::move(transport)),
      wait_watch_(transport_.get(), kWaitWatchTag, *this),
      recorder_(shared_records(), {.rank = rank, .host = host(rank)}) {
  SetUp();
  is_world_ = true;
}

TransportCommunicator::TransportCommunicator(TransportCommunicator& whole,
                                             std::span<const int> ranks, int context)
    : Communicator(whole, ranks),
      transport_(whole.transport_->Split(ranks, context)),
      wait_watch_(transport_.get(), kWaitWatchTag, *this),
      recorder_(shared_records(), {.rank = job_rank(rank()),
                                   .host = host(rank()),
                                   .group = context,
                                   .group_name = group_name()}) {
  SetUp();
}

void TransportCommunicator::SetUp() {
  DT_CHECK(options().piece_bytes > 0 &&
           options().piece_bytes <= static_cast<int64_t>(Transport::kMaxBytes));
  DT_CHECK_LE(options().small_bytes, static_cast<int64_t>(Transport::kMaxBytes));
  DT_CHECK_GE(options().slot_bytes, 4096);
  world_group_.resize(static_cast<size_t>(size()));
  std::iota(world_group_.begin(), world_group_.end(), 0);
  RankGroups groups = FindRankGroups(*this);
  host_group_ = std::move(groups.host);
  cross_group_ = std::move(groups.cross);
  // A slot has a cache line for each rank of the host, or they take messages.
  const auto line_bytes = static_cast<int64_t>(64 * host_group_.size());
  if (options().shared_memory && options().slot_bytes >= line_bytes) ShareMemory();
  hierarchical_ = ChooseHierarchical();
  // Users count from their own first collective.
  sequence_ = 0;
  setup_bytes_ = -bytes_sent();
}

// The first rank of a host makes the memory and tells the others where it is. All must reach it.
void TransportCommunicator::ShareMemory() {
  const int members = static_cast<int>(host_group_.size());
  const size_t channel_bytes = SharedChannel::Bytes(members, options().slot_bytes);
  const size_t bytes = 2 * channel_bytes;
  std::shared_ptr<SharedSegment> segment;
  SharedSegment::Descriptor descriptor;
  if (local_rank() == 0 && members > 1) segment = SharedSegment::Create(bytes);
  if (segment) descriptor = segment->descriptor();
  ExchangePlan plan = WorldPlan(&descriptor, static_cast<int64_t>(sizeof(descriptor)),
                                DType::kUint8, ReduceOp::kMin);
  plan.group = host_group_;
  plan.me = local_rank();
  plan.offsets = EvenOffsets(0, plan.offsets.back(), host_group_.size());
  Start("Broadcast", 0, std::make_unique<TreeBroadcast>(transport_.get(), plan))->Wait();
  if (local_rank() > 0) segment = SharedSegment::Open(descriptor, bytes);
  uint8_t seen = segment ? 1 : 0;
  plan = WorldPlan(&seen, 1, DType::kUint8, ReduceOp::kMin);
  plan.group = host_group_;
  plan.me = local_rank();
  plan.offsets = EvenOffsets(0, 1, host_group_.size());
  Start("AllReduce", 0, std::make_unique<SmallAllReduce>(transport_.get(), &scratch_, plan))
      ->Wait();
  if (segment && local_rank() == 0) segment->Seal();
  if (seen == 0) return;
  // SharedChannel is moved nowhere while operations point to it.
  channels_.reserve(2);
  for (size_t c = 0; c < 2; ++c) {
    channels_.emplace_back(segment, c * channel_bytes, members, local_rank(), options().slot_bytes);
  }
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
  if (cross_group_.empty()) return false;
  // The first rank's for all: of ranks that choose by themselves each would wait for the others.
  AllReduceAlgorithm algorithm = options().algorithm;
  Broadcast(&algorithm, sizeof(algorithm), /*root=*/0);
  if (algorithm == AllReduceAlgorithm::kFlat) return false;
  if (algorithm != AllReduceAlgorithm::kMeasure) return true;
  std::vector<float> data(1 << 20);
  hierarchical_ = false;
  const double flat = SecondsOfAllReduce(data);
  hierarchical_ = true;
  return SecondsOfAllReduce(data) <= flat;
}

int64_t TransportCommunicator::bytes_sent() const {
  int64_t bytes = setup_bytes_ + transport_->bytes_sent();
  for (const SharedChannel& channel : channels_) bytes += channel.bytes_sent();
  return bytes;
}

int64_t TransportCommunicator::Moves() const {
  int64_t moves = transport_->finished();
  for (const SharedChannel& channel : channels_) moves += channel.moves();
  return moves;
}

ExchangePlan TransportCommunicator::WorldPlan(void* data, int64_t count, DType dtype, ReduceOp op) {
  CheckData(data, count);
  const int others = std::max(size() - 1, 1);
  return {.group = world_group_,
          .me = rank(),
          .data = static_cast<std::byte*>(data),
          .offsets = EvenOffsets(0, count, world_group_.size()),
          .dtype = dtype,
          .op = op,
          .divisor = op == ReduceOp::kAverage ? size() : 1,
          .tag = static_cast<int>(sequence_ % kTagsInTurn) * 4,
          .sequence = sequence_,
          // All peers' pieces together stay in the second-level cache.
          .piece_bytes = std::max<int64_t>(options().piece_bytes / ((others + 1) / 2), 4096),
          .job_ranks = job_ranks()};
}

std::unique_ptr<Operation> TransportCommunicator::HierarchicalAllReduce(const ExchangePlan& world) {
  ExchangePlan local = world;
  local.group = host_group_;
  local.me = local_rank();
  local.offsets = EvenOffsets(0, world.offsets.back(), host_group_.size());
  ExchangePlan cross = world;
  if (world.op == ReduceOp::kAverage && world.dtype == DType::kFloat16) {
    // The sum of a host's ranks may exceed what 16 bits hold where the mean does not.
    local.divisor = static_cast<int>(host_group_.size());
    cross.divisor = static_cast<int>(cross_group_.size());
  } else {
    local.divisor = 1;
    local.op = world.op == ReduceOp::kAverage ? ReduceOp::kSum : world.op;
  }
  local.reduce = true;
  const auto place = static_cast<size_t>(local.me);
  cross.group = cross_group_;
  cross.me = PlaceOf(cross_group_, rank());
  cross.offsets = EvenOffsets(local.offsets[place], local.offsets[place + 1], cross_group_.size());
  cross.reduce = cross.gather = true;
  ExchangePlan back = local;
  back.reduce = false;
  back.gather = true;
  std::vector<std::unique_ptr<Operation>> operations;
  operations.push_back(Exchange(std::move(local)));
  operations.push_back(Exchange(std::move(cross)));
  // The gather begins when this rank's sums are there, in another order on each rank.
  operations.push_back(Exchange(std::move(back), /*channel=*/1));
  return std::make_unique<Sequence>(std::move(operations));
}

std::unique_ptr<Operation> TransportCommunicator::Exchange(ExchangePlan plan, int channel) {
  if (!channels_.empty() && plan.group == host_group_) {
    return std::make_unique<SharedExchange>(&channels_[static_cast<size_t>(channel)],
                                            std::move(plan), /*small=*/false);
  }
  return std::make_unique<SliceExchange>(transport_.get(), &scratch_, std::move(plan));
}

int64_t TransportCommunicator::SmallBytes() const {
  int64_t bytes = options().small_bytes;
  if (!channels_.empty()) bytes = std::min(bytes, options().slot_bytes);
  if (host_group_.size() < world_group_.size()) {
    bytes = std::min(bytes, kSmallBetweenHosts / (size() - 1));
  }
  return bytes;
}

std::unique_ptr<Operation> TransportCommunicator::SmallExchange(ExchangePlan plan) {
  if (!channels_.empty() && plan.group == host_group_) {
    return std::make_unique<SharedExchange>(&channels_[0], std::move(plan), /*small=*/true);
  }
  return std::make_unique<SmallAllReduce>(transport_.get(), &scratch_, std::move(plan));
}

std::unique_ptr<Handle> TransportCommunicator::StartAllReduce(void* data, int64_t count,
                                                              DType dtype, ReduceOp op) {
  CheckOpFits(op, dtype);
  ExchangePlan plan = WorldPlan(data, count, dtype, op);
  const int64_t bytes = count * static_cast<int64_t>(SizeOf(dtype));
  const Likeness alike{.kind = KindOf(dtype, op)};
  if (bytes <= SmallBytes()) {
    return Start("AllReduce", bytes, SmallExchange(std::move(plan)), alike);
  }
  if (hierarchical_) return Start("AllReduce", bytes, HierarchicalAllReduce(plan), alike);
  plan.reduce = plan.gather = true;
  return Start("AllReduce", bytes, Exchange(std::move(plan)), alike);
}

std::unique_ptr<Handle> TransportCommunicator::StartBroadcast(void* data, int64_t bytes, int root) {
  CheckRoot(root, size());
  ExchangePlan plan = WorldPlan(data, bytes, DType::kUint8, ReduceOp::kSum);
  std::rotate(plan.group.begin(), plan.group.begin() + root, plan.group.end());
  plan.me = (rank() - root + size()) % size();
  plan.piece_bytes = options().piece_bytes;
  return Start("Broadcast", bytes, std::make_unique<TreeBroadcast>(transport_.get(), plan),
               Likeness{.kind = root});
}

std::unique_ptr<Handle> TransportCommunicator::StartReduceScatter(void* data,
                                                                  std::span<const int64_t> offsets,
                                                                  DType dtype, ReduceOp op) {
  CheckOpFits(op, dtype);
  CheckOffsets(offsets, size());
  ExchangePlan plan = WorldPlan(data, offsets.back(), dtype, op);
  plan.offsets.assign(offsets.begin(), offsets.end());
  plan.reduce = true;
  return Start("ReduceScatter", offsets.back() * static_cast<int64_t>(SizeOf(dtype)),
               Exchange(std::move(plan)), Likeness{.kind = KindOf(dtype, op)});
}

std::unique_ptr<Handle> TransportCommunicator::StartAllGatherV(void* data,
                                                               std::span<const int64_t> offsets) {
  CheckOffsets(offsets, size());
  ExchangePlan plan = WorldPlan(data, offsets.back(), DType::kUint8, ReduceOp::kSum);
  plan.offsets.assign(offsets.begin(), offsets.end());
  plan.gather = true;
  return Start("AllGather", offsets.back(), Exchange(std::move(plan)));
}

std::unique_ptr<Handle> TransportCommunicator::StartAllToAllV(const void* from,
                                                              std::span<const int64_t> from_offsets,
                                                              void* to,
                                                              std::span<const int64_t> to_offsets) {
  CheckOffsets(from_offsets, size());
  CheckOffsets(to_offsets, size());
  const auto* const source = static_cast<const std::byte*>(from);
  auto* const target = static_cast<std::byte*>(to);
  std::vector<PairwiseExchange::Peer> peers;
  for (int k = 0; k < size(); ++k) {
    const int r = (rank() + k) % size();
    const auto i = static_cast<size_t>(r);
    peers.push_back({.rank = r,
                     .from = source + from_offsets[i],
                     .from_bytes = from_offsets[i + 1] - from_offsets[i],
                     .to = target + to_offsets[i],
                     .to_bytes = to_offsets[i + 1] - to_offsets[i]});
  }
  DT_CHECK_EQ(peers[0].from_bytes, peers[0].to_bytes) << "what this rank sends to itself";
  if (peers[0].to_bytes > 0) {
    std::memcpy(peers[0].to, peers[0].from, static_cast<size_t>(peers[0].to_bytes));
  }
  peers.erase(peers.begin());
  const int tag = WorldPlan(nullptr, 0, DType::kUint8, ReduceOp::kSum).tag;
  return Start(
      "AllToAll", from_offsets.back() + to_offsets.back(),
      std::make_unique<PairwiseExchange>(transport_.get(), peers, tag, options().piece_bytes),
      Likeness{.bytes = false});
}

std::unique_ptr<Handle> TransportCommunicator::StartBarrier() {
  return Start("Barrier", 0, SmallExchange(WorldPlan(nullptr, 0, DType::kUint8, ReduceOp::kMax)));
}

std::unique_ptr<Communicator> TransportCommunicator::Split(int color) {
  struct Vote {
    int color;
    int context;
  };
  const std::vector<Vote> votes = AllGather(Vote{color, transport_->next_context()});
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

std::unique_ptr<Handle> TransportCommunicator::Start(const char* name, int64_t bytes,
                                                     std::unique_ptr<Operation> operation,
                                                     const Likeness& alike) {
  recorder_.Begin(sequence_, name, bytes);
  if (is_world_) {
    pulse().BeginCollective(name, (alike.bytes ? bytes << 16 : 0) + alike.kind);
  }
  auto outstanding = std::make_shared<Outstanding>();
  outstanding->operation = std::move(operation);
  outstanding->state.sequence = sequence_++;
  std::strncpy(outstanding->state.collective, name, sizeof(WaitState::collective) - 1);
  outstanding_.push_back(outstanding);
  Poll();
  return std::make_unique<HandleImpl>(this, std::move(outstanding));
}

void TransportCommunicator::Fail(std::string reason) {
  failure_ = std::move(reason);
  const std::string path = recorder_.Dump(failure_);
  if (!path.empty()) LogWarning("the last collectives of this rank are in " + path);
  throw CommError(failure_);
}

void TransportCommunicator::Poll() {
  if (!failure_.empty()) throw CommError(failure_);
  try {
    transport_->Check();
    for (const auto& outstanding : outstanding_) {
      outstanding->done = outstanding->operation->Progress();
      if (outstanding->done) recorder_.End(outstanding->state.sequence);
    }
  } catch (const CommError& error) {
    Fail(absl::StrCat(RankName(rank()), ": ", error.what()));
  }
  std::erase_if(outstanding_, [](const auto& outstanding) { return outstanding->done; });
}

void TransportCommunicator::Wait(const Outstanding& outstanding) {
  Backoff backoff;
  Timer idle;
  WaitMark mark(is_world_ ? &pulse() : nullptr);
  int64_t finished = Moves();
  while (!outstanding.done) {
    mark.Round();
    Poll();
    if (Moves() != finished) {
      finished = Moves();
      mark.Moved();
      backoff.Reset();
      idle.Restart();
      continue;
    }
    if (outstanding.done) return;
    backoff.Pause();
    if (idle.Seconds() < 0.1) continue;
    mark.Idle();
    std::vector<int> missing;
    outstanding.operation->AddMissing(&missing);
    Pulse::Judgement judgement = pulse().judgement();
    // Of groups, which other threads may use, heartbeats say nothing.
    judgement.watched = judgement.watched && is_world_;
    try {
      wait_watch_.OnIdle(outstanding.state, idle.Seconds(), missing, judgement);
    } catch (const CommError& error) {
      Fail(error.what());
    }
    // What the watch itself receives is no progress of the collective.
    finished = Moves();
  }
}

}  // namespace dtrain::internal
