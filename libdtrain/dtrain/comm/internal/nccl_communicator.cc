// nccl_communicator.cc - issues in phases, waits with a time-out, ends all links on failure.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/nccl_communicator.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/timer.h"
#include "dtrain/device/buffer.h"
#include "dtrain/device/copy.h"

namespace dtrain::internal {
namespace {

// The size of the first allreduce: large enough to take the path that buckets take.
constexpr int64_t kProofElements = int64_t{1} << 20;

double SecondsOfAllReduce(Communicator& comm, NcclCommunicator& gpus, void* data, int64_t count) {
  double best = 1e30;
  for (int i = 0; i < 4; ++i) {
    comm.Barrier();
    const Timer timer;
    gpus.AllReduce(data, count, DType::kFloat32, ReduceOp::kSum);
    gpus.Wait();
    if (i > 0) best = std::min(best, timer.Seconds());
  }
  return comm.AllReduceValue(best, ReduceOp::kMax);
}

}  // namespace

NcclCommunicator::NcclCommunicator(Communicator& comm, const Device& device,
                                   const NcclLibrary& nccl)
    : comm_(comm),
      nccl_(nccl),
      groups_(FindRankGroups(comm.topology())),
      stream_(device),
      links_(nccl) {}

NcclCommunicator::~NcclCommunicator() {
  // A rank that leaves its work by an exception must not wait for the others.
  const bool is_over = std::uncaught_exceptions() == 0 && links_.Finish();
  if (!is_over) Abort();
}

std::string NcclCommunicator::ConnectOne(NcclLinkKind kind, const NcclUniqueId& id,
                                         const std::vector<int>& group) {
  const NcclLink& link = links_.Connect(kind, id, group, comm_.rank());
  NcclResult state = NcclResult::kInProgress;
  const auto describe = [](double seconds) {
    return absl::StrFormat("NCCL has not connected the GPUs for %.0f s", seconds);
  };
  // A rank that has failed waits for the others' answers already, and not for ever.
  const double limit = 0.5 * comm_.options().timeout_seconds;
  const bool is_over = Await(
      [&] {
        state = link.State();
        return state == NcclResult::kInProgress ? WaitStep::kNothing : WaitStep::kDone;
      },
      limit, describe);
  if (is_over && state == NcclResult::kSuccess) return "";
  std::string error = is_over ? link.ErrorText(state) : describe(limit);
  Abort();  // the others may notice it
  return error;
}

std::string NcclCommunicator::Connect(const NcclIds& ids) {
  std::vector<int> all(static_cast<size_t>(comm_.size()));
  std::iota(all.begin(), all.end(), 0);
  std::string error = ConnectOne(NcclLinkKind::kWorld, ids.world, all);
  hierarchical_ = ids.hierarchical;
  if (!hierarchical_ || !error.empty()) return error;
  error = ConnectOne(NcclLinkKind::kHost, ids.host, groups_.host);
  return error.empty() ? ConnectOne(NcclLinkKind::kCross, ids.cross, groups_.cross) : error;
}

void NcclCommunicator::Prove() {
  is_connected_ = true;
  const Buffer data(stream_.device(), kProofElements * sizeof(float));
  if (!hierarchical_ || comm_.options().algorithm != AllReduceAlgorithm::kMeasure) {
    AllReduce(data.data(), kProofElements, DType::kFloat32, ReduceOp::kSum);
    return Wait();
  }
  hierarchical_ = false;
  const double flat = SecondsOfAllReduce(comm_, *this, data.data(), kProofElements);
  hierarchical_ = true;
  hierarchical_ = SecondsOfAllReduce(comm_, *this, data.data(), kProofElements) <= flat;
}

std::string NcclCommunicator::description() const {
  int version = 0;
  static_cast<void>(nccl_.GetVersion(&version));
  return absl::StrCat("NCCL ", NcclVersionName(version),
                      hierarchical_ ? ", hierarchical" : ", flat");
}

void NcclCommunicator::AllReduce(void* data, int64_t count, DType dtype, ReduceOp op) {
  Submit({NcclCall::Kind::kAllReduce, static_cast<std::byte*>(data), count, dtype, op});
}
void NcclCommunicator::ReduceScatter(void* data, int64_t count, DType dtype, ReduceOp op) {
  Submit({NcclCall::Kind::kReduceScatter, static_cast<std::byte*>(data), count, dtype, op});
}
void NcclCommunicator::AllGather(void* data, int64_t count, DType dtype) {
  Submit({NcclCall::Kind::kAllGather, static_cast<std::byte*>(data), count, dtype});
}
void NcclCommunicator::Broadcast(void* data, int64_t bytes, int root) {
  DT_CHECK(root >= 0 && root < comm_.size()) << "root " << root << " of " << comm_.size();
  Submit({NcclCall::Kind::kBroadcast, static_cast<std::byte*>(data), bytes, DType::kUint8,
          ReduceOp::kSum, root});
}

void NcclCommunicator::AllToAll(const void* from, std::span<const int64_t> from_offsets, void* to,
                                std::span<const int64_t> to_offsets) {
  DT_CHECK(group_ == nullptr) << "an all-to-all is a group by itself";
  const auto size = static_cast<size_t>(comm_.size());
  DT_CHECK_EQ(from_offsets.size(), size + 1);
  DT_CHECK_EQ(to_offsets.size(), size + 1);
  ThrowIfFailed();
  auto* const source = const_cast<std::byte*>(static_cast<const std::byte*>(from));
  auto* const target = static_cast<std::byte*>(to);
  std::vector<NcclCall> calls;
  for (size_t r = 0; r < size; ++r) {
    const int64_t sent = from_offsets[r + 1] - from_offsets[r];
    const int64_t received = to_offsets[r + 1] - to_offsets[r];
    if (static_cast<int>(r) == comm_.rank()) {
      DT_CHECK_EQ(sent, received) << "what a rank sends to itself";
      CopyOnDevice(target + to_offsets[r], source + from_offsets[r], static_cast<size_t>(sent),
                   stream_);
      continue;
    }
    const auto peer = static_cast<int>(r);
    calls.push_back({NcclCall::Kind::kSend, source + from_offsets[r], sent, DType::kUint8,
                     ReduceOp::kSum, peer});
    calls.push_back({NcclCall::Kind::kReceive, target + to_offsets[r], received, DType::kUint8,
                     ReduceOp::kSum, peer});
  }
  if (!calls.empty()) Issue(calls);
}

void NcclCommunicator::Submit(const NcclCall& call) {
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
  std::vector<NcclCall> calls;
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

void NcclCommunicator::Issue(std::span<const NcclCall> calls) {
  const NcclHierarchy hierarchy{.local_rank = comm_.topology().local_rank(),
                                .local_size = comm_.topology().local_size(),
                                .small_bytes = comm_.options().small_bytes};
  NcclPhases phases;
  for (const NcclCall& call : calls) {
    AddNcclPieces(call, hierarchical_ ? &hierarchy : nullptr, phases);
  }
  issued_.Add(calls);
  const double limit = comm_.options().timeout_seconds;
  const auto describe = [&](double seconds) {
    return absl::StrFormat("NCCL has not taken %s for %.0f s; a rank may not have issued it",
                           issued_.last(), seconds);
  };
  for (const std::vector<NcclPiece>& pieces : phases) {
    if (pieces.empty()) continue;
    const std::string error = links_.Launch(pieces, stream_.handle());
    if (!error.empty()) Fail(absl::StrCat("NCCL refuses ", issued_.last(), ": ", error));
    const bool is_taken = Await(
        [&] {
          CheckLinks();
          return links_.IsBusy(pieces) ? WaitStep::kNothing : WaitStep::kDone;
        },
        limit, describe);
    if (!is_taken) Fail(describe(limit));
  }
  issued_.MarkLaunched(stream_);
}

bool NcclCommunicator::Await(const std::function<WaitStep()>& step, double limit,
                             const std::function<std::string(double)>& describe) {
  try {
    // Until all ranks are connected, the limit decides.
    return AwaitDevice(comm_, step, limit, describe, /*is_watched=*/is_connected_);
  } catch (const CommError& error) {
    if (failure_.empty()) failure_ = error.what();
    Abort();
    throw;
  }
}

void NcclCommunicator::CheckLinks() {
  const std::string error = links_.FindError();
  if (!error.empty()) Fail(absl::StrCat("NCCL reports in ", issued_.current(), ": ", error));
}

void NcclCommunicator::Poll() {
  ThrowIfFailed();
  static_cast<void>(issued_.Reap());
  CheckLinks();
}

void NcclCommunicator::Wait() {
  ThrowIfFailed();
  using Summary = IssuedCollectives::Summary;
  const auto size = static_cast<size_t>(comm_.size());
  auto all = std::make_unique<std::vector<Summary>>(size);
  (*all)[static_cast<size_t>(comm_.rank())] = issued_.Summarize();
  std::vector<int64_t> offsets;
  for (size_t r = 0; r <= size; ++r) offsets.push_back(static_cast<int64_t>(r * sizeof(Summary)));
  const double limit = comm_.options().timeout_seconds;
  bool have_met = false;
  try {
    const std::unique_ptr<Handle> meeting = comm_.StartAllGatherV(all->data(), offsets);
    const auto describe = [&](double seconds) {
      return issued_.DescribeWait(seconds, comm_.topology(), DeviceName(stream_.device()),
                                  have_met ? std::vector<int>() : meeting->MissingRanks());
    };
    const bool is_over = Await(
        [&] {
          WaitStep made = issued_.Reap() ? WaitStep::kMoved : WaitStep::kNothing;
          if (!have_met && meeting->Test()) {
            have_met = true;
            made = WaitStep::kMoved;
            const std::string difference =
                IssuedCollectives::FindDifference(*all, comm_.topology());
            if (!difference.empty()) Fail(difference);
          }
          CheckLinks();
          return have_met && issued_.all_arrived() ? WaitStep::kDone : made;
        },
        limit, describe);
    if (!is_over) Fail(describe(limit));
  } catch (...) {
    // Memory is freed on the way out, which waits for what travels. That holds also if the job had
    // failed before this rank came here.
    if (failure_.empty()) failure_ = "the job failed while this rank waited for its GPU";
    Abort();
    // Messages of a meeting that was given up may still arrive in its memory.
    if (!have_met) static_cast<void>(all.release());
    throw;
  }
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
