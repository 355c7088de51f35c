// collective_queue.cc - the cycle: submissions, votes, news, execution, stalls, the end.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/collective_queue.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/log.h"
#include "dtrain/base/thread_pool.h"

namespace dtrain::internal {
namespace {

constexpr uint64_t kNoNews = 1;  // flag in word 0 of the votes
constexpr size_t kNamed = 5;     // tensors named in a message
// How long a rank that gave up and is about to leave waits for the late ones, to tell them.
constexpr double kLingerSeconds = 5;

std::chrono::steady_clock::duration Duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

bool IsCached(CollectiveKind kind) { return kind <= CollectiveKind::kBarrier; }

}  // namespace

CollectiveQueue::CollectiveQueue(std::unique_ptr<Communicator> comm,
                                 const CollectivesOptions& options, TensorMaker make_tensor)
    : comm_(std::move(comm)),
      options_(options),
      timeline_(options.timeline != nullptr ? options.timeline : &off_),
      executor_(comm_.get(), options.fusion_bytes, std::move(make_tensor), timeline_),
      negotiation_(comm_->job_ranks()),
      cache_(options.cache_entries) {
  progress_->pulse = comm_->shared_pulse();
  thread_ = std::thread([this] { Run(); });
}

CollectiveQueue::~CollectiveQueue() {
  {
    const std::lock_guard lock(mutex_);
    // A rank that is thrown out of its work must not wait for the others.
    if (std::uncaught_exceptions() > 0 && abort_.empty()) abort_ = "its work has failed";
    closing_ = true;
    wake_.notify_all();
  }
  thread_.join();
}

std::shared_ptr<CollectiveResult> CollectiveQueue::Submit(
    std::unique_ptr<SubmittedCollective> collective) {
  auto result = std::make_shared<CollectiveResult>();
  if (!collective->outputs.empty()) result->output = collective->outputs[0];
  collective->result = result;
  if (timeline_->is_on()) collective->since = Timeline::Now();
  const std::lock_guard lock(mutex_);
  std::string& name = collective->request.name;
  if (name.empty()) {
    name = absl::StrCat("nameless ", ToAbsl(Name(collective->request.kind)), " ", nameless_++);
  }
  result->hurry = [this] { Hurry(); };
  if (!closed_.ok()) {
    result->Finish(closed_);
  } else if (collective->request.kind == CollectiveKind::kBarrier && names_.contains(name)) {
    // Threads may be at one each. Which of them overlap differs between ranks: they go in turns, so
    // that each rank's n-th meets the others' n-th.
    later_barriers_.push_back(std::move(collective));
  } else if (!names_.insert(name).second) {
    result->Finish(
        {ExitCode::kUsage, absl::StrCat("\"", name,
                                        "\" is in flight already: wait for it, or give this "
                                        "one a name of its own")});
  } else {
    submitted_.push_back(std::move(collective));
    wake_.notify_all();
  }
  return result;
}

void CollectiveQueue::Hurry() {
  const std::lock_guard lock(mutex_);
  hurry_ = true;
  wake_.notify_all();
}

void CollectiveQueue::Abort(std::string_view reason) {
  std::unique_lock lock(mutex_);
  if (abort_.empty()) abort_ = reason;
  wake_.notify_all();
  drained_changed_.wait(lock, [&] { return drained_; });
}

// Fails what is pending; the next cycle tells the others.
void CollectiveQueue::TakeAbort() {
  {
    const std::lock_guard lock(mutex_);
    if (abort_.empty() || !closed_.ok()) return;
    give_up_ = absl::StrCat(comm_->RankName(comm_->rank()), " has ended its collectives: ", abort_);
  }
  GiveUp();
}

void CollectiveQueue::GiveUp() {
  left_in_order_ = false;  // what it drops is missing elsewhere
  std::unordered_map<std::string, Pending> kept;
  if (voting_) {
    for (const auto& [name, pending] : pending_) {
      if (pending.cached < 0) continue;
      kept.emplace(name, Pending{.submitted = CollectiveExecutor::CopyOf(*pending.submitted),
                                 .text = pending.text,
                                 .cached = pending.cached});
    }
  }
  CloseWith(give_up_);
  pending_ = std::move(kept);
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
    CloseWith("the collectives have ended");
  } catch (const CollectiveError& error) {
    Close({error.code(), error.what()});
  } catch (const CommError& error) {
    CloseWith(error.what());
  } catch (const std::exception& error) {
    Close({ExitCode::kInternal, error.what()});
  }
}

bool CollectiveQueue::Cycle() {
  Accept(WaitForWork());
  TakeAbort();
  std::vector<uint64_t> votes = Votes();
  // Its bits are for all that was in flight when the last rank joined, from the next cycle on.
  const bool all_joined = negotiation_.all_joined();
  if (!Vote(&votes)) return false;
  ++cycles_;
  const std::vector<int> ready_numbers = ReadyNumbers(votes);
  if ((votes[0] & kNoNews) == 0) {
    ++full_cycles_;
    Learn(comm_->AllGatherStrings(News()));
  }
  // Where a rank gave up, its data are gone, and what seems complete is not.
  if (!broken_) Execute(ready_numbers);
  if (IsClosed()) pending_.clear();  // what GiveUp() kept for this cycle
  if (all_joined) FinishJoin();
  if (ended_) {
    CloseWith(pending_.empty() ? give_up_ : give_up_ + "; left undone: " + PendingNames());
    return false;
  }
  WatchTable();
  return true;
}

CollectiveQueue::Submissions CollectiveQueue::WaitForWork() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] {
    return closing_ || !abort_.empty() || !submitted_.empty() || !pending_.empty() || join_ ||
           !give_up_.empty();
  });
  wake_.wait_until(lock, last_cycle_ + Duration(options_.cycle_seconds),
                   [&] { return closing_ || hurry_; });
  hurry_ = false;
  last_cycle_ = std::chrono::steady_clock::now();
  if (closing_ && give_up_.empty()) {
    give_up_ = absl::StrCat(comm_->RankName(comm_->rank()), " has ended its collectives");
    left_in_order_ = true;
  }
  return std::exchange(submitted_, {});
}

void CollectiveQueue::Accept(Submissions submissions) {
  for (auto& submitted : submissions) {
    if (submitted->request.kind == CollectiveKind::kJoin) {
      join_ = std::move(submitted);
      continue;
    }
    Pending pending{.submitted = std::move(submitted)};
    const CollectiveRequest& request = pending.submitted->request;
    pending.text = request.Text();
    pending.cached = cache_.Find(request.name, pending.text);
    pending_.emplace(request.name, std::move(pending));
  }
  // What stalls is told to all, so that somebody can say which ranks lack it.
  for (auto& [name, pending] : pending_) {
    if (pending.cached >= 0 && pending.since.Seconds() > StallSeconds()) {
      pending.cached = -1;
    }
  }
}

std::vector<uint64_t> CollectiveQueue::Votes() {
  const auto words = static_cast<size_t>(cache_.size() + 63) / 64;
  std::vector<uint64_t> have(words);
  bool news = (join_ && !join_sent_) || (!give_up_.empty() && !shutdown_sent_);
  for (const auto& [name, pending] : pending_) {
    if (pending.cached < 0) {
      news = news || !pending.sent;
      continue;
    }
    const auto number = static_cast<size_t>(pending.cached);
    have[number / 64] |= uint64_t{1} << (number % 64);
  }
  std::vector<uint64_t> votes{news ? 0 : kNoNews};
  const std::set<int>& joined = negotiation_.joined();
  // A rank that has joined is ready for everything, but somebody must have it.
  const bool ready_for_all = joined.contains(comm_->rank());
  for (const uint64_t word : have) votes.push_back(ready_for_all ? ~uint64_t{0} : word);
  if (joined.empty()) return votes;
  for (const uint64_t word : have) votes.push_back(~word);
  return votes;
}

bool CollectiveQueue::Vote(std::vector<uint64_t>* votes) {
  voting_ = true;
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
    if (seconds < std::min(StallSeconds(), 0.05)) continue;
    OnVoteStalled(handle->MissingRanks(), seconds);
    if (!IsClosed() || !IsClosing()) lingering.Restart();
    if (lingering.Seconds() < kLingerSeconds) continue;
    // This rank gave up and nobody waits for an answer. Late messages may still arrive: what they
    // land in is left to the process's end.
    static_cast<void>(comm_.release());
    return false;
  }
  vote_announced_ = false;
  voting_ = false;
  return true;
}

void CollectiveQueue::OnVoteStalled(const std::vector<int>& missing, double seconds) {
  const bool warn = seconds > options_.stall_warning_seconds && !vote_announced_;
  const bool fail = options_.timeout_seconds > 0 && seconds > options_.timeout_seconds;
  if ((!warn && !fail) || IsClosed()) return;
  std::string text =
      absl::StrFormat("%s has waited %.1f s for ", comm_->RankName(comm_->rank()), seconds);
  const char* separator = "";
  for (const int rank : missing) {
    absl::StrAppend(&text, std::exchange(separator, ", "), comm_->RankName(rank));
  }
  if (missing.empty()) {
    absl::StrAppend(&text, "messages on their way, with ", PendingNames());
  } else if (!pending_.empty()) {
    absl::StrAppend(&text, ", which submitted nothing, with ", PendingNames());
  } else {
    absl::StrAppend(&text,
                    join_ ? ", to join or to submit something" : ", to end its collectives too");
  }
  if (warn) LogWarning(text);
  vote_announced_ = true;
  if (!fail) return;
  give_up_ = text + "; gave up";
  GiveUp();
}

std::string CollectiveQueue::News() {
  std::string news;
  for (auto& [name, pending] : pending_) {
    if (pending.cached >= 0 || std::exchange(pending.sent, true)) continue;
    news += pending.text;
  }
  if (join_ && !std::exchange(join_sent_, true)) {
    news += CollectiveRequest{.name = kJoinName, .kind = CollectiveKind::kJoin}.Text();
  }
  if (!give_up_.empty() && !std::exchange(shutdown_sent_, true)) {
    CollectiveRequest request{.name = "shutdown", .kind = CollectiveKind::kShutdown};
    request.refusal = give_up_;
    request.root = left_in_order_ ? 0 : 1;
    news += request.Text();
  }
  return news;
}

void CollectiveQueue::Learn(const std::vector<std::string>& news) {
  for (size_t rank = 0; rank < news.size(); ++rank) {
    std::string_view text = news[rank];
    while (!text.empty()) {
      CollectiveRequest request = CollectiveRequest::Read(&text);
      if (request.kind == CollectiveKind::kShutdown) {
        if (!ended_) give_up_ = request.refusal;
        ended_ = true;
        broken_ = broken_ || request.root != 0;
        continue;
      }
      // Somebody's differs from what is in the cache: all say theirs again.
      if (cache_.Holds(request.name)) {
        cache_.Remove(request.name);
        Forget(request.name);
      }
      negotiation_.Add(static_cast<int>(rank), std::move(request));
    }
  }
}

void CollectiveQueue::Forget(const std::string& name) {
  const auto found = pending_.find(name);
  if (found != pending_.end()) found->second.cached = -1;
}

std::vector<int> CollectiveQueue::ReadyNumbers(const std::vector<uint64_t>& votes) const {
  std::vector<int> numbers;
  const auto words = static_cast<size_t>(cache_.size() + 63) / 64;
  const bool some_joined = votes.size() > 1 + words;
  for (size_t w = 0; w < words; ++w) {
    uint64_t word = votes[1 + w];
    if (some_joined) word &= ~votes[1 + words + w];
    for (; word != 0; word &= word - 1) {
      numbers.push_back(static_cast<int>(w * 64) + std::countr_zero(word));
    }
  }
  return numbers;
}

void CollectiveQueue::Execute(const std::vector<int>& ready_numbers) {
  std::vector<AgreedCollective> ready;
  for (const int number : ready_numbers) {
    const AgreedCollective& cached = cache_.Get(number);
    if (cached.request.name.empty()) continue;  // removed by the news
    cache_.Touch(number);
    ready.push_back(negotiation_.Recheck(cached));
  }
  const size_t from_cache = ready.size();
  for (AgreedCollective& agreed : negotiation_.TakeReady()) ready.push_back(std::move(agreed));

  std::vector<CollectiveExecutor::Work> batch;
  for (size_t i = 0; i < ready.size(); ++i) {
    const auto found = pending_.find(ready[i].request.name);
    if (!ready[i].error.empty()) {
      const std::string& error = ready[i].error;
      Finish(ready[i].request.name,
             {ready[i].usage_error ? ExitCode::kUsage : ExitCode::kCommunication, error});
      continue;
    }
    const bool mine = found != pending_.end();
    DT_CHECK(mine || negotiation_.joined().contains(comm_->rank()))
        << "this rank has no data for \"" << ready[i].request.name << "\"";
    // A rank that has joined knows the request as the others sent it.
    std::string text = mine ? found->second.text : ready[i].request.Text();
    if (i >= from_cache && IsCached(ready[i].request.kind)) {
      const std::string evicted = cache_.Insert(ready[i], std::move(text));
      if (!evicted.empty()) Forget(evicted);
    }
    CollectiveExecutor::Work& work = batch.emplace_back();
    work.agreed = std::move(ready[i]);
    if (mine) work.submitted = std::move(found->second.submitted);
  }
  // Where it throws, the queue ends, and with it all waits.
  const int64_t step = batch.empty() ? 0 : 1;
  progress_->exchanges += step;
  try {
    executor_.Run(batch, !negotiation_.joined().empty());
  } catch (...) {
    for (CollectiveExecutor::Work& work : batch) {
      if (!work.submitted) continue;
      pending_.at(work.agreed.request.name).submitted = std::move(work.submitted);
    }
    throw;
  }
  progress_->exchanges += step;
  for (const CollectiveExecutor::Work& work : batch) {
    const std::string& name = work.agreed.request.name;
    if (!work.submitted) continue;
    FreeName(work.agreed.request);
    pending_.erase(name);
    End(*work.submitted, {});
  }
}

void CollectiveQueue::Finish(const std::string& name, const CollectiveOutcome& outcome) {
  const auto found = pending_.find(name);
  if (found == pending_.end()) return;
  const std::unique_ptr<SubmittedCollective> submitted = std::move(found->second.submitted);
  FreeName(submitted->request);
  pending_.erase(found);
  End(*submitted, outcome);
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

void CollectiveQueue::FreeName(const CollectiveRequest& request) {
  const std::lock_guard lock(mutex_);
  if (!later_barriers_.empty() && later_barriers_.front()->request.name == request.name) {
    submitted_.push_back(std::move(later_barriers_.front()));
    later_barriers_.pop_front();
  } else {
    names_.erase(request.name);
  }
}

void CollectiveQueue::FinishJoin() {
  if (!join_ || !negotiation_.all_joined()) return;
  negotiation_.ClearJoined();
  join_sent_ = false;
  join_->result->last_joined = negotiation_.last_joined();
  {
    const std::lock_guard lock(mutex_);
    names_.erase(kJoinName);
  }
  End(*std::exchange(join_, nullptr), {});
}

void CollectiveQueue::WatchTable() {
  double oldest = 0;
  std::string text;
  for (const auto& stalled : negotiation_.TakeStalled(StallSeconds())) {
    if (stalled.first_rank == comm_->rank()) {
      std::string of_this =
          absl::StrFormat("\"%s\" has waited %.1f s for ", stalled.name, stalled.seconds);
      const char* separator = "";
      for (const int rank : stalled.missing) {
        absl::StrAppend(&of_this, std::exchange(separator, ", "), comm_->RankName(rank));
      }
      if (!stalled.announced) LogWarning(of_this + "; other ranks have submitted it");
      if (stalled.seconds > oldest) {
        oldest = stalled.seconds;
        text = std::move(of_this);
      }
    }
  }
  if (options_.timeout_seconds > 0 && oldest > options_.timeout_seconds && give_up_.empty()) {
    give_up_ = text + "; gave up";
  }
}

double CollectiveQueue::StallSeconds() const {
  if (options_.timeout_seconds <= 0) return options_.stall_warning_seconds;
  return std::min(options_.stall_warning_seconds, options_.timeout_seconds);
}

bool CollectiveQueue::IsClosed() const {
  const std::lock_guard lock(mutex_);
  return !closed_.ok();
}

bool CollectiveQueue::IsClosing() const {
  const std::lock_guard lock(mutex_);
  return closing_;
}

void CollectiveQueue::Close(const CollectiveOutcome& outcome) {
  Submissions submissions;
  {
    const std::lock_guard lock(mutex_);
    if (closed_.ok()) closed_ = outcome;
    submissions = std::exchange(submitted_, {});
    for (auto& barrier : later_barriers_) submissions.push_back(std::move(barrier));
    later_barriers_.clear();
    names_.clear();
  }
  for (const auto& submitted : submissions) End(*submitted, outcome);
  for (const auto& [name, pending] : pending_) End(*pending.submitted, outcome);
  pending_.clear();
  if (join_) End(*std::exchange(join_, nullptr), outcome);
  const std::lock_guard lock(mutex_);
  drained_ = true;
  drained_changed_.notify_all();
}

std::string CollectiveQueue::PendingNames() const {
  std::vector<std::string> names;
  for (const auto& [name, pending] : pending_) names.push_back(absl::StrCat("\"", name, "\""));
  std::sort(names.begin(), names.end());
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kNamed) absl::StrAppend(&text, " and ", names.size() - kNamed, " more");
  return text;
}

}  // namespace dtrain::internal
