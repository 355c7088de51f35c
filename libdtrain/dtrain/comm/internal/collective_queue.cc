// collective_queue.cc - the cycle: submissions, votes, news, execution, stalls, the end.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/collective_queue.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/gather.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/comm/internal/cycle_votes.h"

namespace dtrain::internal {
namespace {

// How long a rank that gave up and is about to leave waits for late ranks, to tell them.
constexpr double kLingerSeconds = 5;

CollectiveOutcome Failed(std::string message) {
  return {ExitCode::kCommunication, std::move(message)};
}

}  // namespace

CollectiveQueue::CollectiveQueue(std::unique_ptr<Communicator> comm,
                                 const CollectivesOptions& options, TensorMaker make_tensor)
    : comm_(std::move(comm)),
      cycle_seconds_(options.cycle_seconds),
      timeline_(options.timeline != nullptr ? options.timeline : &off_),
      executor_(comm_.get(), options.fusion_bytes, std::move(make_tensor), timeline_),
      agreement_(comm_->rank(), comm_->topology().job_ranks(), options.cache_entries, &pending_),
      stalls_(comm_->topology(), options.stall_warning_seconds, options.timeout_seconds) {
  progress_->heartbeat = HeartbeatOf(*comm_);
  thread_ = std::thread([this] { Run(); });
}

CollectiveQueue::~CollectiveQueue() {
  // A rank that leaves its work by an exception must not wait for the others.
  submissions_.Leave(/*has_failed=*/std::uncaught_exceptions() > 0);
  thread_.join();
}

std::shared_ptr<CollectiveResult> CollectiveQueue::Submit(
    std::unique_ptr<SubmittedCollective> collective) {
  auto result = std::make_shared<CollectiveResult>();
  if (!collective->outputs.empty()) result->output = collective->outputs[0];
  result->hurry = [this] { submissions_.Hurry(); };
  collective->result = result;
  if (timeline_->is_on()) collective->since = Timeline::Now();
  submissions_.Submit(std::move(collective));
  return result;
}

Collectives::Statistics CollectiveQueue::statistics() const {
  return {.cycles = cycles_,
          .full_cycles = full_cycles_,
          .tensors = executor_.tensors(),
          .reductions = executor_.reductions()};
}

void CollectiveQueue::Run() {
  SetNumThreads(1);
  try {
    while (Cycle()) {
    }
    Close(Failed("the collectives have ended"));
  } catch (const CollectiveError& error) {
    Close({error.code(), error.what()});
  } catch (const CommError& error) {
    Close(Failed(error.what()));
  } catch (const std::exception& error) {
    Close({ExitCode::kInternal, error.what()});
  }
}

bool CollectiveQueue::Cycle() {
  Accept();
  TakeAbort();
  std::vector<uint64_t> votes = agreement_.Vote(shutdown_.HasNews());
  // The votes of the next cycle cover everything that was in flight when the last rank joined.
  const bool all_joined = agreement_.all_joined();
  if (!ReduceVotes(&votes)) return false;
  ++cycles_;
  const std::vector<int> ready_numbers = agreement_.ReadyNumbers(votes);
  if (SomeRankHasNews(votes)) {
    ++full_cycles_;
    Learn(AllGatherStrings(*comm_, pending_.TakeNews() + shutdown_.TakeNews()));
  }
  // A rank that gave up has no data: what seems complete is not.
  if (!shutdown_.is_broken()) Execute(agreement_.TakeReady(ready_numbers));
  if (submissions_.IsClosed()) pending_.Clear();  // the copies that GiveUp() kept for this cycle
  if (all_joined) FinishJoin();
  if (shutdown_.has_ended()) {
    std::string reason = shutdown_.reason();
    if (pending_.has_tensors()) absl::StrAppend(&reason, "; left undone: ", pending_.Names());
    Close(Failed(std::move(reason)));
    return false;
  }
  const std::string stalled = stalls_.OnStalled(agreement_.TakeStalled(stalls_.first_seconds()));
  if (!stalled.empty() && !shutdown_.has_reason()) shutdown_.GiveUp(stalled);
  return true;
}

void CollectiveQueue::Accept() {
  const bool has_work = pending_.has_tensors() || pending_.has_join() || shutdown_.has_reason();
  SubmissionQueue::Intake intake = submissions_.WaitForWork(cycle_seconds_, has_work);
  if (intake.is_leaving) {
    shutdown_.Leave(
        absl::StrCat(comm_->topology().RankName(comm_->rank()), " has ended its collectives"));
  }
  for (auto& submitted : intake.submissions) agreement_.Add(std::move(submitted));
  pending_.AnnounceOlderThan(stalls_.first_seconds());
}

bool CollectiveQueue::ReduceVotes(std::vector<uint64_t>* votes) {
  is_voting_ = true;
  const auto handle = comm_->StartAllReduce(votes->data(), static_cast<int64_t>(votes->size()),
                                            DType::kInt64, ReduceOp::kBitAnd);
  const Timer waited;
  Timer lingering;
  while (!handle->Test()) {
    TakeAbort();
    const double seconds = waited.Seconds();
    if (seconds < 5e-4) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(seconds < 0.05 ? 50 : 500));
    if (seconds < std::min(stalls_.first_seconds(), 0.05)) continue;
    if (stalls_.IsVoteWaitDue(seconds) && !submissions_.IsClosed()) {
      std::string reason = stalls_.OnVoteWait(seconds, handle->MissingRanks(), pending_.Names(),
                                              pending_.has_join());
      if (!reason.empty()) GiveUp(std::move(reason));
    }
    if (!submissions_.IsClosed() || !submissions_.IsLeaving()) lingering.Restart();
    if (lingering.Seconds() < kLingerSeconds) continue;
    // This rank gave up and no caller waits. Late messages may still arrive, so their memory is
    // left to the end of the process.
    static_cast<void>(comm_.release());
    return false;
  }
  stalls_.EndVoteWait();
  is_voting_ = false;
  return true;
}

void CollectiveQueue::TakeAbort() {
  const std::string reason = submissions_.AbortReason();
  if (reason.empty()) return;
  GiveUp(absl::StrCat(comm_->topology().RankName(comm_->rank()),
                      " has ended its collectives: ", reason));
}

void CollectiveQueue::GiveUp(std::string reason) {
  shutdown_.GiveUp(reason);
  Close(Failed(std::move(reason)), /*keep_voted=*/is_voting_);
}

void CollectiveQueue::Learn(const std::vector<std::string>& news) {
  for (size_t rank = 0; rank < news.size(); ++rank) {
    std::string_view text = news[rank];
    while (!text.empty()) {
      CollectiveRequest request = CollectiveRequest::Read(&text);
      if (request.kind == CollectiveKind::kShutdown) {
        shutdown_.Learn(request);
      } else {
        agreement_.Learn(static_cast<int>(rank), std::move(request));
      }
    }
  }
}

void CollectiveQueue::Execute(std::vector<CollectiveWork> ready) {
  std::vector<CollectiveWork> batch;
  for (CollectiveWork& work : ready) {
    const AgreedCollective& agreed = work.agreed;
    if (agreed.error.empty()) {
      batch.push_back(std::move(work));
    } else if (work.submitted) {
      const ExitCode code = agreed.usage_error ? ExitCode::kUsage : ExitCode::kCommunication;
      Finish(*work.submitted, {code, agreed.error});
    }
  }
  // If the executor throws, the queue ends, and with it all waits.
  const int64_t step = batch.empty() ? 0 : 1;
  progress_->exchanges += step;
  try {
    executor_.Run(batch, agreement_.some_joined());
  } catch (...) {
    for (CollectiveWork& work : batch) {
      if (work.submitted) agreement_.Add(std::move(work.submitted));
    }
    throw;
  }
  progress_->exchanges += step;
  for (const CollectiveWork& work : batch) {
    if (work.submitted) Finish(*work.submitted, {});
  }
}

void CollectiveQueue::FinishJoin() {
  const std::unique_ptr<SubmittedCollective> join = agreement_.TakeFinishedJoin();
  if (join) Finish(*join, {});
}

void CollectiveQueue::Finish(const SubmittedCollective& submitted,
                             const CollectiveOutcome& outcome) {
  submissions_.FreeName(submitted.request.name);
  End(submitted, outcome);
}

void CollectiveQueue::End(const SubmittedCollective& submitted, const CollectiveOutcome& outcome) {
  if (submitted.since != 0) {
    TimelineSpan span{.lane = kTensorLane, .begin = submitted.since, .end = Timeline::Now()};
    for (const Tensor& input : submitted.inputs) {
      span.bytes = std::max<int64_t>(span.bytes, 0) + static_cast<int64_t>(input.bytes());
    }
    timeline_->Add(submitted.request.name, span);
  }
  submitted.result->Finish(outcome);
}

void CollectiveQueue::Close(const CollectiveOutcome& outcome, bool keep_voted) {
  const Submissions pending = pending_.TakeAll(keep_voted);
  for (const auto& submitted : submissions_.Close(outcome)) End(*submitted, outcome);
  for (const auto& submitted : pending) End(*submitted, outcome);
  submissions_.SetDrained();
}

}  // namespace dtrain::internal
