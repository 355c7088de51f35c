// nccl.cc - the emulated GPUs' NCCL: ranks are threads, sums are plain loops, faults on request.
// SPDX-License-Identifier: Apache-2.0
//
// As strict as the real one is unforgiving: calls on a communicator that is still in progress are
// refused, ranks that issue different collectives wait for ever, and an abort reaches nobody else
// and waits for the stream that its collectives are in.
#include "testing/host_executor/nccl.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "dtrain/base/dtype.h"
#include "testing/host_executor/stream_steps.h"

namespace dtrain::host_executor {
namespace {

using internal::NcclConfig;
using internal::NcclHandle;
using internal::NcclLibrary;
using internal::NcclOp;
using internal::NcclResult;
using internal::NcclType;
using internal::NcclUniqueId;
using Clock = std::chrono::steady_clock;

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast };

// A collective as one rank has issued it.
struct Part {
  Kind kind = Kind::kAllReduce;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  size_t count = 0;
  NcclType type = NcclType::kUint8;
  NcclOp op = NcclOp::kSum;
  int root = 0;
  bool has_entered = false;

  bool Fits(const Part& other) const {
    return kind == other.kind && count == other.count && type == other.type && op == other.op &&
           root == other.root;
  }
};

struct Round {
  std::vector<Part> parts;  // by rank
  bool is_done = false;
};

// A message from one rank to another, until that one has taken it.
struct Message {
  const std::byte* from = nullptr;
  size_t bytes = 0;
  bool is_taken = false;
};

// The ranks of one unique id.
struct World {
  std::mutex mutex;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> messages;  // by both ranks
  std::vector<bool> connected;
  bool is_given_up = false;  // by a rank that was connecting
  std::map<int64_t, Round> rounds;
};

struct EmulatedComm {
  std::shared_ptr<World> world;
  int rank = 0;
  Clock::time_point ready_at;
  bool is_connected = false;
  NcclResult connecting = NcclResult::kSuccess;
  int polls_in_progress = 0;  // that State() is still to give
  int64_t next = 0;           // collective
  int64_t stuck = -1, failing = -1;
  StreamPoint last;                  // behind what was launched
  NcclSettings* settings = nullptr;  // of the thread that made it
  // Shared with what is in streams.
  struct Fate {
    std::mutex mutex;
    bool is_aborted = false;
    NcclResult error = NcclResult::kSuccess;
  };
  std::shared_ptr<Fate> fate = std::make_shared<Fate>();
};

size_t SizeOf(NcclType type) {
  switch (type) {
    case NcclType::kUint8:
      return 1;
    case NcclType::kFloat16:
    case NcclType::kBFloat16:
      return 2;
    case NcclType::kInt32:
    case NcclType::kFloat32:
      return 4;
    default:
      return 8;
  }
}

// Added in `Sum`, rounded once; averages divide first, as NCCL's do.
template <typename T, typename Sum>
void Reduce(const std::vector<Part>& parts, size_t begin, size_t count, NcclOp op, std::byte* to) {
  const Sum factor = op == NcclOp::kAverage ? Sum(1) / static_cast<Sum>(parts.size()) : Sum(1);
  for (size_t i = 0; i < count; ++i) {
    Sum total = Sum();
    for (size_t r = 0; r < parts.size(); ++r) {
      const Sum x = static_cast<Sum>(
          static_cast<Sum>(reinterpret_cast<const T*>(parts[r].from)[begin + i]) * factor);
      if (r == 0) {
        total = x;
      } else if (op == NcclOp::kMin) {
        total = std::min(total, x);
      } else if (op == NcclOp::kMax) {
        total = std::max(total, x);
      } else if (op == NcclOp::kProduct) {
        total = static_cast<Sum>(total * x);
      } else {
        total = static_cast<Sum>(total + x);
      }
    }
    reinterpret_cast<T*>(to)[i] = static_cast<T>(total);
  }
}

void Reduce(const std::vector<Part>& parts, size_t begin, size_t count, std::byte* to) {
  const NcclOp op = parts[0].op;
  switch (parts[0].type) {
    case NcclType::kFloat32:
      return Reduce<float, float>(parts, begin, count, op, to);
    case NcclType::kFloat16:
      return Reduce<Float16, float>(parts, begin, count, op, to);
    case NcclType::kBFloat16:
      return Reduce<BFloat16, float>(parts, begin, count, op, to);
    case NcclType::kFloat64:
      return Reduce<double, double>(parts, begin, count, op, to);
    case NcclType::kInt32:
      return Reduce<int32_t, int32_t>(parts, begin, count, op, to);
    case NcclType::kInt64:
      return Reduce<int64_t, int64_t>(parts, begin, count, op, to);
    case NcclType::kUint8:
      return Reduce<uint8_t, uint8_t>(parts, begin, count, op, to);
  }
}

// All ranks wait for this one: their memory is ours.
void Compute(const std::vector<Part>& parts) {
  const Part& first = parts[0];
  const size_t bytes = first.count * SizeOf(first.type);
  // Results first, then writes: memory may be the same.
  std::vector<std::vector<std::byte>> results;
  switch (first.kind) {
    case Kind::kAllReduce:
      results.emplace_back(bytes);
      Reduce(parts, 0, first.count, results[0].data());
      break;
    case Kind::kReduceScatter:
      for (size_t r = 0; r < parts.size(); ++r) {
        results.emplace_back(bytes);
        Reduce(parts, r * first.count, first.count, results[r].data());
      }
      break;
    case Kind::kAllGather:
      results.emplace_back();
      for (const Part& part : parts) {
        results[0].insert(results[0].end(), part.from, part.from + bytes);
      }
      break;
    case Kind::kBroadcast: {
      const std::byte* const from = parts[static_cast<size_t>(first.root)].from;
      results.emplace_back(from, from + bytes);
      break;
    }
  }
  for (size_t r = 0; r < parts.size(); ++r) {
    const std::vector<std::byte>& result = results[results.size() == 1 ? 0 : r];
    std::memcpy(parts[r].to, result.data(), result.size());
  }
}

// Enters once, then asks whether all have and it is done.
class CollectiveStep {
 public:
  CollectiveStep(const EmulatedComm& comm, const Part& part)
      : world_(comm.world),
        fate_(comm.fate),
        rank_(static_cast<size_t>(comm.rank)),
        number_(comm.next),
        part_(part),
        is_stuck_(comm.next == comm.stuck),
        fails_(comm.next == comm.failing) {}

  bool operator()() {
    {
      const std::scoped_lock lock(fate_->mutex);
      if (fate_->is_aborted) return true;
      if (fails_) fate_->error = NcclResult::kRemoteError;
    }
    if (is_stuck_ || fails_) return false;
    const std::scoped_lock lock(world_->mutex);
    Round& round = world_->rounds[number_];
    if (!part_.has_entered) {
      part_.has_entered = true;
      round.parts.resize(world_->connected.size());
      round.parts[rank_] = part_;
      const bool is_last = std::all_of(round.parts.begin(), round.parts.end(), [&](const Part& p) {
        return p.has_entered && p.Fits(part_);
      });
      if (is_last) Compute(round.parts);
      round.is_done = is_last;
    }
    return round.is_done;
  }

 private:
  std::shared_ptr<World> world_;
  std::shared_ptr<EmulatedComm::Fate> fate_;
  size_t rank_;
  int64_t number_;
  Part part_;
  bool is_stuck_, fails_;
};

// The bytes that a rank sends to and receives from another one.
struct Move {
  int peer = 0;
  const std::byte* from = nullptr;  // or null
  std::byte* to = nullptr;          // or null
  size_t bytes = 0;
};

// All moves of a group are under way at the same time.
class MovesStep {
 public:
  MovesStep(const EmulatedComm& comm, std::vector<Move> moves)
      : world_(comm.world), fate_(comm.fate), rank_(comm.rank), moves_(std::move(moves)) {}

  bool operator()() {
    {
      const std::scoped_lock lock(fate_->mutex);
      if (fate_->is_aborted) return true;
    }
    const std::scoped_lock lock(world_->mutex);
    if (!std::exchange(has_sent_, true)) Send();
    std::erase_if(moves_, [&](const Move& move) { return move.to == nullptr || Receive(move); });
    return moves_.empty() &&
           std::ranges::all_of(sent_, [](const auto& message) { return message->is_taken; });
  }

 private:
  void Send() {
    for (const Move& move : moves_) {
      if (move.from == nullptr) continue;
      sent_.push_back(std::make_shared<Message>(Message{move.from, move.bytes}));
      world_->messages[{rank_, move.peer}].push_back(sent_.back());
    }
  }
  bool Receive(const Move& move) {
    auto& messages = world_->messages[{move.peer, rank_}];
    if (messages.empty() || messages.front()->bytes != move.bytes) return false;
    std::memcpy(move.to, messages.front()->from, move.bytes);
    messages.front()->is_taken = true;
    messages.pop_front();
    return true;
  }

  std::shared_ptr<World> world_;
  std::shared_ptr<EmulatedComm::Fate> fate_;
  int rank_;
  std::vector<Move> moves_;
  std::vector<std::shared_ptr<Message>> sent_;
  bool has_sent_ = false;
};

struct Launch {
  EmulatedComm* comm;
  Part part;
  void* stream;
  Move move = {};  // instead of the part, if it has bytes
};

// Of this thread, between GroupStart and GroupEnd.
struct Group {
  int depth = 0;
  std::vector<Launch> launches;
};
Group& TheGroup() {
  thread_local Group group;
  return group;
}

EmulatedComm& AsComm(NcclHandle handle) { return *static_cast<EmulatedComm*>(handle); }

NcclResult StateOf(EmulatedComm& comm) {
  {
    const std::scoped_lock lock(comm.fate->mutex);
    if (comm.fate->error != NcclResult::kSuccess) return comm.fate->error;
  }
  if (!comm.is_connected) {
    if (Clock::now() < comm.ready_at) return NcclResult::kInProgress;
    if (comm.connecting != NcclResult::kSuccess) return comm.connecting;
    const std::scoped_lock lock(comm.world->mutex);
    if (comm.world->is_given_up) return NcclResult::kRemoteError;
    comm.world->connected[static_cast<size_t>(comm.rank)] = true;
    const std::vector<bool>& all = comm.world->connected;
    if (std::find(all.begin(), all.end(), false) != all.end()) return NcclResult::kInProgress;
    comm.is_connected = true;
  }
  if (comm.polls_in_progress > 0) {
    --comm.polls_in_progress;
    return NcclResult::kInProgress;
  }
  return NcclResult::kSuccess;
}

NcclResult GetVersion(int* version) {
  *version = Nccl().version;
  return NcclResult::kSuccess;
}

struct Worlds {
  std::mutex mutex;
  int64_t next = 1;
  std::map<int64_t, std::shared_ptr<World>> by_id;

  static Worlds& Get() {
    static Worlds worlds;
    return worlds;
  }
};

NcclResult GetUniqueId(NcclUniqueId* id) {
  Worlds& worlds = Worlds::Get();
  const std::scoped_lock lock(worlds.mutex);
  ++Nccl().ids;
  const int64_t number = Nccl().has_comm_id ? 0 : worlds.next++;
  if (!worlds.by_id.contains(number)) worlds.by_id[number] = std::make_shared<World>();
  std::memcpy(id->bytes, &number, sizeof(number));
  return NcclResult::kSuccess;
}

const char* GetErrorString(NcclResult result) {
  return result == NcclResult::kRemoteError ? "remote process exited or there was a network error"
                                            : "unhandled system error";
}

const char* GetLastError(NcclHandle) { return "the emulation was told to"; }

NcclResult CommInitRankConfig(NcclHandle* handle, int size, NcclUniqueId id, int rank,
                              NcclConfig* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0 || rank < 0 || rank >= size) {
    return NcclResult::kInvalidArgument;
  }
  int64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof(number));
  auto comm = std::make_unique<EmulatedComm>();
  {
    Worlds& worlds = Worlds::Get();
    const std::scoped_lock lock(worlds.mutex);
    const auto found = worlds.by_id.find(number);
    if (found == worlds.by_id.end()) return NcclResult::kInvalidArgument;
    comm->world = found->second;
  }
  const NcclSettings& settings = Nccl();
  {
    const std::scoped_lock lock(comm->world->mutex);
    comm->world->connected.resize(static_cast<size_t>(size));
  }
  comm->rank = rank;
  comm->ready_at = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(settings.connect_seconds));
  comm->connecting = settings.connecting;
  comm->stuck = settings.stuck;
  comm->failing = settings.failing;
  comm->settings = &Nccl();
  ++Nccl().communicators;
  *handle = comm.release();
  return NcclResult::kInProgress;
}

NcclResult CommGetAsyncError(NcclHandle handle, NcclResult* error) {
  *error = StateOf(AsComm(handle));
  return NcclResult::kSuccess;
}

NcclResult CommFinalize(NcclHandle handle) { return StateOf(AsComm(handle)); }

NcclResult CommDestroy(NcclHandle handle) {
  EmulatedComm& comm = AsComm(handle);
  {
    const std::scoped_lock lock(Worlds::Get().mutex);
    --comm.settings->communicators;
  }
  delete &comm;
  return NcclResult::kSuccess;
}

NcclResult CommAbort(NcclHandle handle) {
  EmulatedComm& comm = AsComm(handle);
  {
    const std::scoped_lock lock(Worlds::Get().mutex);
    ++comm.settings->aborts;
  }
  {
    const std::scoped_lock lock(comm.fate->mutex);
    comm.fate->is_aborted = true;
  }
  if (!comm.is_connected) {
    const std::scoped_lock lock(comm.world->mutex);
    comm.world->is_given_up = true;
  }
  while (!HasPassed(comm.last)) std::this_thread::sleep_for(std::chrono::microseconds(200));
  return CommDestroy(handle);
}

NcclResult GroupStart() {
  ++TheGroup().depth;
  return NcclResult::kSuccess;
}

NcclResult GroupEnd() {
  Group& group = TheGroup();
  if (group.depth == 0) return NcclResult::kInvalidUsage;
  if (--group.depth > 0) return NcclResult::kSuccess;
  ++Nccl().groups;
  std::map<std::pair<EmulatedComm*, void*>, std::vector<Move>> moves;
  for (const Launch& launch : std::exchange(group.launches, {})) {
    EmulatedComm& comm = *launch.comm;
    if (launch.move.bytes > 0) {
      moves[{&comm, launch.stream}].push_back(launch.move);
      continue;
    }
    // The first collective connects what it needs.
    if (comm.next == 0) comm.polls_in_progress = 3;
    SubmitStep(launch.stream, CollectiveStep(comm, launch.part));
    comm.last = PointOf(launch.stream);
    ++comm.next;
    ++Nccl().collectives;
  }
  for (auto& [place, all] : moves) {
    const auto& [comm, stream] = place;
    SubmitStep(stream, MovesStep(*comm, std::move(all)));
    comm->last = PointOf(stream);
    ++Nccl().collectives;
  }
  return NcclResult::kInProgress;
}

NcclResult Add(const Part& part, NcclHandle handle, void* stream, const Move& move = {}) {
  EmulatedComm& comm = AsComm(handle);
  const NcclResult state = StateOf(comm);
  if (state != NcclResult::kSuccess) {
    return state == NcclResult::kInProgress ? NcclResult::kInvalidUsage : state;
  }
  static_cast<void>(GroupStart());
  TheGroup().launches.push_back({&comm, part, stream, move});
  return GroupEnd();
}

NcclResult AllReduce(const void* from, void* to, size_t count, NcclType type, NcclOp op,
                     NcclHandle comm, void* stream) {
  return Add({.kind = Kind::kAllReduce,
              .from = static_cast<const std::byte*>(from),
              .to = static_cast<std::byte*>(to),
              .count = count,
              .type = type,
              .op = op},
             comm, stream);
}

NcclResult ReduceScatter(const void* from, void* to, size_t count, NcclType type, NcclOp op,
                         NcclHandle comm, void* stream) {
  return Add({.kind = Kind::kReduceScatter,
              .from = static_cast<const std::byte*>(from),
              .to = static_cast<std::byte*>(to),
              .count = count,
              .type = type,
              .op = op},
             comm, stream);
}

NcclResult AllGather(const void* from, void* to, size_t count, NcclType type, NcclHandle comm,
                     void* stream) {
  return Add({.kind = Kind::kAllGather,
              .from = static_cast<const std::byte*>(from),
              .to = static_cast<std::byte*>(to),
              .count = count,
              .type = type},
             comm, stream);
}

NcclResult Broadcast(const void* from, void* to, size_t count, NcclType type, int root,
                     NcclHandle comm, void* stream) {
  return Add({.kind = Kind::kBroadcast,
              .from = static_cast<const std::byte*>(from),
              .to = static_cast<std::byte*>(to),
              .count = count,
              .type = type,
              .root = root},
             comm, stream);
}

NcclResult Send(const void* from, size_t count, NcclType type, int peer, NcclHandle comm,
                void* stream) {
  if (count == 0) return NcclResult::kInvalidArgument;
  return Add(
      {}, comm, stream,
      {.peer = peer, .from = static_cast<const std::byte*>(from), .bytes = count * SizeOf(type)});
}

NcclResult Receive(void* to, size_t count, NcclType type, int peer, NcclHandle comm, void* stream) {
  if (count == 0) return NcclResult::kInvalidArgument;
  return Add({}, comm, stream,
             {.peer = peer, .to = static_cast<std::byte*>(to), .bytes = count * SizeOf(type)});
}

constexpr NcclLibrary kLibrary = {.GetVersion = GetVersion,
                                  .GetUniqueId = GetUniqueId,
                                  .GetErrorString = GetErrorString,
                                  .GetLastError = GetLastError,
                                  .CommInitRankConfig = CommInitRankConfig,
                                  .CommGetAsyncError = CommGetAsyncError,
                                  .CommFinalize = CommFinalize,
                                  .CommDestroy = CommDestroy,
                                  .CommAbort = CommAbort,
                                  .GroupStart = GroupStart,
                                  .GroupEnd = GroupEnd,
                                  .AllReduce = AllReduce,
                                  .ReduceScatter = ReduceScatter,
                                  .AllGather = AllGather,
                                  .Broadcast = Broadcast,
                                  .Send = Send,
                                  .Receive = Receive};

}  // namespace

NcclSettings& Nccl() {
  thread_local NcclSettings settings = NcclOfNewThreads();
  return settings;
}

NcclSettings& NcclOfNewThreads() {
  static NcclSettings settings;
  return settings;
}

}  // namespace dtrain::host_executor

namespace dtrain::internal {

StatusOr<const NcclLibrary*> NcclLibrary::Get() {
  if (host_executor::Nccl().is_absent) return CommunicationError("NCCL cannot be loaded");
  return &host_executor::kLibrary;
}

}  // namespace dtrain::internal
