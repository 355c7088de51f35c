// nccl_communicator.cc - issues in phases, waits with a time-out, ends all links on failure.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/wait_mark.h"
#include "dtrain/device/buffer.h"

namespace dtrain::internal {
namespace {

// Of the first allreduce: large enough to take the way that buckets take.
constexpr int64_t kProofElements = int64_t{1} << 20;

NcclType TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return NcclType::kFloat32;
    case DType::kFloat16:
      return NcclType::kFloat16;
    case DType::kBFloat16:
      return NcclType::kBFloat16;
    case DType::kFloat64:
      return NcclType::kFloat64;
    case DType::kInt32:
      return NcclType::kInt32;
    case DType::kInt64:
      return NcclType::kInt64;
    case DType::kUint8:
      break;
  }
  return NcclType::kUint8;
}

NcclOp OpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage:
      return NcclOp::kAverage;
    case ReduceOp::kMin:
      return NcclOp::kMin;
    case ReduceOp::kMax:
      return NcclOp::kMax;
    case ReduceOp::kProduct:
      return NcclOp::kProduct;
    case ReduceOp::kSum:
    case ReduceOp::kBitAnd:
      break;
  }
  return NcclOp::kSum;
}

// FNV-1a, eight bytes at a time.
void Absorb(int64_t value, uint64_t& digest) {
  digest = (digest ^ static_cast<uint64_t>(value)) * 0x100000001b3U;
}

}  // namespace

NcclCommunicator::NcclCommunicator(Communicator& comm, const Device& device,
                                   const NcclLibrary& nccl)
    : comm_(comm), nccl_(nccl), groups_(FindRankGroups(comm)), stream_(device) {}

NcclCommunicator::~NcclCommunicator() {
  // A rank that is thrown out of its work must not wait for the others.
  bool is_over = std::uncaught_exceptions() == 0;
  for (NcclLink* const link : {world_.get(), host_.get(), cross_.get()}) {
    is_over = is_over && (link == nullptr || link->Finish());
  }
  if (!is_over) Abort();
}

std::string NcclCommunicator::ConnectOne(std::unique_ptr<NcclLink>& link, const NcclUniqueId& id,
                                         const std::vector<int>& group) {
  link = std::make_unique<NcclLink>(nccl_, id, static_cast<int>(group.size()),
                                    PlaceOf(group, comm_.rank()));
  NcclResult state = NcclResult::kInProgress;
  const auto describe = [](double seconds) {
    return absl::StrFormat("NCCL has not connected the GPUs for %.0f s", seconds);
  };
  // A rank that failed already waits for what the others say of it, and not for ever.
  const double limit = 0.5 * comm_.options().timeout_seconds;
  const bool is_over = Await(
      [&] {
        state = link->State();
        return state == NcclResult::kInProgress ? Step::kNothing : Step::kDone;
      },
      limit, describe);
  if (is_over && state == NcclResult::kSuccess) return "";
  std::string error = is_over ? link->ErrorText(state) : describe(limit);
  Abort();  // which the others may notice
  return error;
}

std::string NcclCommunicator::Connect(const NcclIds& ids) {
  std::vector<int> all(static_cast<size_t>(comm_.size()));
  std::iota(all.begin(), all.end(), 0);
  std::string error = ConnectOne(world_, ids.world, all);
  hierarchical_ = ids.hierarchical;
  if (!hierarchical_ || !error.empty()) return error;
  error = ConnectOne(host_, ids.host, groups_.host);
  return error.empty() ? ConnectOne(cross_, ids.cross, groups_.cross) : error;
}

double NcclCommunicator::SecondsOfAllReduce(void* data, int64_t count) {
  double best = 1e30;
  for (int i = 0; i < 4; ++i) {
    comm_.Barrier();
    const Timer timer;
    AllReduce(data, count, DType::kFloat32, ReduceOp::kSum);
    Wait();
    if (i > 0) best = std::min(best, timer.Seconds());
  }
  return comm_.AllReduceValue(best, ReduceOp::kMax);
}

void NcclCommunicator::Prove() {
  is_connected_ = true;
  const Buffer data(stream_.device(), kProofElements * sizeof(float));
  if (!hierarchical_ || comm_.options().algorithm != AllReduceAlgorithm::kMeasure) {
    AllReduce(data.data(), kProofElements, DType::kFloat32, ReduceOp::kSum);
    return Wait();
  }
  hierarchical_ = false;
  const double flat = SecondsOfAllReduce(data.data(), kProofElements);
  hierarchical_ = true;
  hierarchical_ = SecondsOfAllReduce(data.data(), kProofElements) <= flat;
}

std::string NcclCommunicator::description() const {
  int version = 0;
  static_cast<void>(nccl_.GetVersion(&version));
  return absl::StrCat("NCCL ", NcclVersionName(version),
                      hierarchical_ ? ", hierarchical" : ", flat");
}

std::string NcclCommunicator::Describe(const Call& call) {
  static constexpr std::array<const char*, 4> kNames = {"AllReduce", "ReduceScatter", "AllGather",
                                                        "Broadcast"};
  return absl::StrFormat("%s of %d %s", kNames[static_cast<size_t>(call.kind)], call.count,
                         Name(call.dtype));
}

void NcclCommunicator::AllReduce(void* data, int64_t count, DType dtype, ReduceOp op) {
  Submit({Kind::kAllReduce, static_cast<std::byte*>(data), count, dtype, op});
}
void NcclCommunicator::ReduceScatter(void* data, int64_t count, DType dtype, ReduceOp op) {
  Submit({Kind::kReduceScatter, static_cast<std::byte*>(data), count, dtype, op});
}
void NcclCommunicator::AllGather(void* data, int64_t count, DType dtype) {
  Submit({Kind::kAllGather, static_cast<std::byte*>(data), count, dtype});
}
void NcclCommunicator::Broadcast(void* data, int64_t bytes, int root) {
  DT_CHECK(root >= 0 && root < comm_.size()) << "root " << root << " of " << comm_.size();
  Submit({Kind::kBroadcast, static_cast<std::byte*>(data), bytes, DType::kUint8, ReduceOp::kSum,
          root});
}

void NcclCommunicator::Submit(const Call& call) {
  DT_CHECK_GE(call.count, 0);
  DT_CHECK(call.op != ReduceOp::kBitAnd) << "a bitwise and is for the host's communicators";
  DT_CHECK(call.op != ReduceOp::kAverage || !IsInteger(call.dtype))
      << "an average needs a floating type";
  ThrowIfFailed();
  if (call.count == 0) return;
  if (group_ != nullptr) return group_->push_back(call);
  Issue({&call, 1});
}

void NcclCommunicator::Group(const std::function<void()>& issue) {
  DT_CHECK(group_ == nullptr) << "a group within a group";
  std::vector<Call> calls;
  group_ = &calls;
  try {
    issue();
  } catch (...) {
    group_ = nullptr;
    throw;
  }
  group_ = nullptr;
  if (!calls.empty()) Issue(calls);
}

void NcclCommunicator::Issue(std::span<const Call> calls) {
  Phases phases;
  for (const Call& call : calls) {
    AddPieces(call, phases);
    for (const int64_t value :
         {static_cast<int64_t>(call.kind), call.count, static_cast<int64_t>(call.dtype),
          static_cast<int64_t>(call.op), static_cast<int64_t>(call.root)}) {
      Absorb(value, digest_);
    }
  }
  last_ = Describe(calls.back());
  number_ += static_cast<int64_t>(calls.size());
  for (const std::vector<Piece>& pieces : phases) {
    if (!pieces.empty()) Launch(pieces);
  }
  in_flight_.emplace_back(number_, last_, stream_);
}

// Hierarchical: the ranks of a host share out the sum, each adds its share up with its like on
// other hosts, and the host's ranks put them together. What does not divide goes the flat way.
void NcclCommunicator::AddPieces(const Call& call, Phases& phases) {
  const auto size = static_cast<int64_t>(SizeOf(call.dtype));
  const int64_t members = hierarchical_ ? comm_.local_size() : 1;
  const int64_t share = call.count / members;
  if (!hierarchical_ || call.kind != Kind::kAllReduce ||
      call.count * size <= comm_.options().small_bytes) {
    return phases[0].push_back({world_.get(), call});
  }
  Call part = call;
  part.kind = Kind::kReduceScatter;
  part.count = share;
  phases[0].push_back({host_.get(), part});
  Call across = part;
  across.kind = Kind::kAllReduce;
  across.data += comm_.local_rank() * share * size;
  phases[1].push_back({cross_.get(), across});
  part.kind = Kind::kAllGather;
  phases[2].push_back({host_.get(), part});
  if (call.count == members * share) return;
  Call tail = call;
  tail.data += members * share * size;
  tail.count -= members * share;
  phases[0].push_back({world_.get(), tail});
}

void NcclCommunicator::Launch(std::span<const Piece> pieces) {
  NcclResult result = nccl_.GroupStart();
  for (const Piece& piece : pieces) {
    const NcclResult launched = Launch(piece);
    if (result == NcclResult::kSuccess) result = launched;
  }
  const NcclResult ended = nccl_.GroupEnd();
  if (result == NcclResult::kSuccess || result == NcclResult::kInProgress) result = ended;
  if (result != NcclResult::kSuccess && result != NcclResult::kInProgress) {
    Fail(absl::StrCat("NCCL refuses ", last_, ": ", pieces[0].link->ErrorText(result)));
  }
  const auto describe = [&](double seconds) {
    return absl::StrFormat("NCCL has not taken %s for %.0f s; a rank may not have issued it", last_,
                           seconds);
  };
  const double limit = comm_.options().timeout_seconds;
  const bool is_taken = Await(
      [&] {
        CheckLinks();
        const bool in_progress = std::any_of(pieces.begin(), pieces.end(), [](const Piece& piece) {
          return piece.link->State() == NcclResult::kInProgress;
        });
        return in_progress ? Step::kNothing : Step::kDone;
      },
      limit, describe);
  if (!is_taken) Fail(describe(limit));
}

NcclResult NcclCommunicator::Launch(const Piece& piece) {
  const Call& call = piece.call;
  const auto count = static_cast<size_t>(call.count);
  const NcclType type = TypeOf(call.dtype);
  // In place, NCCL wants to be shown the own part.
  const int place = piece.link == host_.get() ? comm_.local_rank() : comm_.rank();
  std::byte* const own = call.data + place * call.count * static_cast<int64_t>(SizeOf(call.dtype));
  NcclHandle const handle = piece.link->handle();
  void* const stream = stream_.handle();
  switch (call.kind) {
    case Kind::kAllReduce:
      return nccl_.AllReduce(call.data, call.data, count, type, OpOf(call.op), handle, stream);
    case Kind::kReduceScatter:
      return nccl_.ReduceScatter(call.data, own, count, type, OpOf(call.op), handle, stream);
    case Kind::kAllGather:
      return nccl_.AllGather(own, call.data, count, type, handle, stream);
    case Kind::kBroadcast:
      break;
  }
  return nccl_.Broadcast(call.data, call.data, count, type, call.root, handle, stream);
}

bool NcclCommunicator::Await(const std::function<Step()>& step, double limit,
                             const std::function<std::string(double)>& describe) {
  WaitMark mark(&comm_.pulse());
  bool has_warned = false;
  Timer idle;
  for (;;) {
    mark.Round();
    Step made = Step::kNothing;
    try {
      made = step();
      if (made == Step::kDone) return true;
      comm_.Poll();
    } catch (const CommError& error) {
      if (failure_.empty()) failure_ = error.what();
      Abort();
      throw;
    }
    if (made == Step::kMoved) {
      idle.Restart();
      mark.Moved();
    }
    const double seconds = idle.Seconds();
    // What is nearly there is not waited for much longer than it takes.
    std::this_thread::sleep_for(std::chrono::microseconds(seconds < 2e-3 ? 20 : 200));
    if (seconds < 0.1) continue;
    mark.Idle();
    const Pulse::Judgement judgement = comm_.pulse().judgement();
    if (!judgement.failure.empty()) Fail(absl::StrCat(judgement.failure, "; ", describe(seconds)));
    if (judgement.watched && is_connected_) continue;  // heartbeats warn, and decide
    if (seconds > limit) return false;
    if (seconds > comm_.options().slow_seconds && !std::exchange(has_warned, true)) {
      LogWarning(describe(seconds));
    }
  }
}

NcclCommunicator::Step NcclCommunicator::Reap() {
  Step made = Step::kNothing;
  while (!in_flight_.empty() && in_flight_.front().arrived.HasPassed()) {
    in_flight_.pop_front();
    made = Step::kMoved;
  }
  return made;
}

void NcclCommunicator::CheckLinks() {
  for (const NcclLink* link : {world_.get(), host_.get(), cross_.get()}) {
    if (link == nullptr) continue;
    const NcclResult state = link->State();
    if (state == NcclResult::kSuccess || state == NcclResult::kInProgress) continue;
    const std::string& name = in_flight_.empty() ? last_ : in_flight_.front().name;
    Fail(absl::StrCat("NCCL reports in ", name, ": ", link->ErrorText(state)));
  }
}

void NcclCommunicator::Poll() {
  ThrowIfFailed();
  static_cast<void>(Reap());
  CheckLinks();
}

void NcclCommunicator::Wait() {
  ThrowIfFailed();
  const auto size = static_cast<size_t>(comm_.size());
  auto all = std::make_unique<std::vector<Issued>>(size);
  Issued& mine = (*all)[static_cast<size_t>(comm_.rank())];
  mine.number = number_;
  mine.digest = digest_;
  std::strncpy(mine.last.data(), last_.c_str(), mine.last.size() - 1);
  std::vector<int64_t> offsets;
  for (size_t r = 0; r <= size; ++r) offsets.push_back(static_cast<int64_t>(r * sizeof(Issued)));
  const double limit = comm_.options().timeout_seconds;
  bool have_met = false;
  try {
    const std::unique_ptr<Handle> meeting = comm_.StartAllGatherV(all->data(), offsets);
    const auto describe = [&](double seconds) {
      return DescribeWait(seconds, have_met ? std::vector<int>() : meeting->MissingRanks());
    };
    const bool is_over = Await(
        [&] {
          Step made = Reap();
          if (!have_met && meeting->Test()) {
            have_met = true;
            made = Step::kMoved;
            CheckSame(*all);
          }
          CheckLinks();
          return have_met && in_flight_.empty() ? Step::kDone : made;
        },
        limit, describe);
    if (!is_over) Fail(describe(limit));
  } catch (...) {
    // Memory is freed on the way out, which waits for what travels: also where the job had failed
    // before this rank came here.
    if (failure_.empty()) failure_ = "the job failed while this rank waited for its GPU";
    Abort();
    // A meeting that was given up may still be written to.
    if (!have_met) static_cast<void>(all.release());
    throw;
  }
}

void NcclCommunicator::CheckSame(std::span<const Issued> all) {
  for (size_t r = 1; r < all.size(); ++r) {
    const Issued& first = all[0];
    const Issued& other = all[r];
    if (first.number == other.number && first.digest == other.digest) continue;
    Fail(
        absl::StrFormat("%s has issued %d collectives, the last an %s, but %s %d, the last an %s: "
                        "all ranks must issue the same in the same order",
                        comm_.RankName(0), first.number, first.last.data(),
                        comm_.RankName(static_cast<int>(r)), other.number, other.last.data()));
  }
}

std::string NcclCommunicator::DescribeWait(double seconds, std::span<const int> missing) const {
  const std::string name = in_flight_.empty() ? last_ : in_flight_.front().name;
  const int64_t number = in_flight_.empty() ? number_ : in_flight_.front().number;
  std::string text = absl::StrFormat("%s has waited %.0f s in %s on %s, collective number %d, for ",
                                     comm_.RankName(comm_.rank()), seconds, name,
                                     DeviceName(stream_.device()), number);
  for (size_t i = 0; i < missing.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", comm_.RankName(missing[i]));
  }
  if (missing.empty()) {
    text += "the network between the GPUs: all ranks have issued it (NCCL_DEBUG=INFO says more)";
  }
  return text;
}

void NcclCommunicator::Abort() {
  // At the same time: each waits for the stream, which moves on when all are aborted.
  std::vector<std::thread> threads;
  for (NcclLink* const link : {world_.get(), host_.get(), cross_.get()}) {
    if (link == nullptr || link->handle() == nullptr) continue;
    threads.emplace_back([link] { link->Abort(); });
  }
  for (std::thread& thread : threads) thread.join();
}

void NcclCommunicator::Fail(const std::string& reason) {
  failure_ = reason;
  Abort();
  throw CommError(failure_);
}

void NcclCommunicator::ThrowIfFailed() const {
  if (!failure_.empty()) throw CommError(failure_);
}

}  // namespace dtrain::internal
