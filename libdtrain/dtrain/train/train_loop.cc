// train_loop.cc - one update after the other; every decision is taken on values of all ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/train_loop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>

#include "dtrain/base/check.h"
#include "dtrain/base/stop_flags.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/distributed/replica_check.h"
#include "dtrain/ops/cast.h"
#include "dtrain/optim/clip.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/train/task.h"
#include "dtrain/train/train_state.h"

namespace dtrain {

class TrainLoop::Impl {
 public:
  Impl(Communicator& comm, const StopFlags& requests, Context& ctx, ParameterSet& parameters,
       Adam& adam, const TrainLoopOptions& options);

  int64_t step() const { return state_.step; }
  int64_t micro_batches() const { return options_.micro_batches; }
  void Add(const LossSums& sums) { sums_ += sums; }
  bool NextUpdate();
  void Update();
  void Evaluate(const std::string& metric, int64_t first, int64_t count,
                const std::function<MeanParts(const SampleRange&)>& measure);
  Status Finish();

  SampleRange RangeOf(int64_t part) const;
  // Begins the first part from `part` on that is not empty on this rank and returns it, or ends the
  // backward passes and returns micro_batches().
  int64_t BeginFrom(int64_t part);

 private:
  bool IsEvery(int64_t updates) const { return updates > 0 && state_.step % updates == 0; }
  void BeginPart(int64_t part);
  void MarkAllReady();
  Status SaveIfDue();
  Status WriteCheckpoint();

  Communicator& comm_;
  const StopFlags& requests_;
  Context& ctx_;
  ParameterSet& parameters_;
  Adam& adam_;
  TrainLoopOptions options_;
  GradientReducer reducer_;
  TrainState state_;
  LossSums sums_;      // of this update and rank
  double loss_ = 0.0;  // mean of the last update, over all ranks
  bool is_stop_requested_ = false;
  bool is_save_due_ = false;
  bool is_saved_ = true;  // whether the last update's weights are in a checkpoint
  Status status_;
};

TrainLoop::Impl::Impl(Communicator& comm, const StopFlags& requests, Context& ctx,
                      ParameterSet& parameters, Adam& adam, const TrainLoopOptions& options)
    : comm_(comm),
      requests_(requests),
      ctx_(ctx),
      parameters_(parameters),
      adam_(adam),
      options_(options),
      reducer_(parameters, comm, options.reducer) {
  DT_CHECK(options.updates > 0) << "TrainLoopOptions::updates is the length of the run";
  DT_CHECK(options.samples_per_epoch > 0 && options.samples_per_update > 0)
      << "TrainLoopOptions: samples_per_epoch and samples_per_update are above 0";
  DT_CHECK(options.micro_batches >= 1 && options.micro_batches <= kMaxMicroBatches)
      << "TrainLoopOptions::micro_batches is " << options.micro_batches << ", not 1 to "
      << kMaxMicroBatches;
  DT_CHECK(ctx.compute_type() != DType::kFloat16)
      << "float16 needs a loss scale; use bfloat16 here";
  DT_CHECK_EQ(ctx.rank(), comm.rank()) << "ContextOptions::rank is not the communicator's";
  CheckSchedule(options.learning_rate);
  status_ = options.directory.empty()
                ? ShareRestored(OkStatus(), parameters, adam, state_, comm)
                : ResumeCheckpoint(options.directory, parameters, adam, state_, comm).status();
  if (!status_.ok()) return;
  reducer_.SetStep(state_.step);
  if (state_.step > 0 && comm.is_root()) {
    std::printf("resuming after update %lld\n", static_cast<long long>(state_.step));
  }
}

bool TrainLoop::Impl::NextUpdate() {
  status_.Update(SaveIfDue());
  if (status_.ok() && is_stop_requested_) {
    status_ = StoppedError("the same command resumes");
  }
  if (!status_.ok() || state_.step >= options_.updates) return false;
  ctx_.set_training(true);
  HeartbeatOf(comm_)->SetStep(state_.step);
  HeartbeatOf(comm_)->SetPhase(Phase::kForward);
  parameters_.BeginGradients(ctx_.stream());
  sums_ = {};
  return true;
}

int64_t TrainLoop::Impl::BeginFrom(int64_t part) {
  for (; part < options_.micro_batches; ++part) {
    BeginPart(part);
    if (!RangeOf(part).empty()) return part;
  }
  reducer_.StopListening();
  return part;
}

SampleRange TrainLoop::Impl::RangeOf(int64_t part) const {
  const int64_t begin = state_.position.sample;
  return {.begin = begin + part * comm_.size() + comm_.rank(),
          .end = std::min(begin + options_.samples_per_update, options_.samples_per_epoch),
          .stride = options_.micro_batches * comm_.size()};
}

// Only the last micro-batch completes the gradients. A rank without samples there takes part in
// their exchange all the same: its gradients are what the parts before have left.
void TrainLoop::Impl::BeginPart(int64_t part) {
  ctx_.set_step(state_.step, static_cast<int>(part));
  if (part < options_.micro_batches - 1) return;
  if (RangeOf(part).empty()) {
    MarkAllReady();
  } else {
    reducer_.Listen();
  }
}

void TrainLoop::Impl::MarkAllReady() {
  parameters_.SettleGradients();
  for (const Parameter* parameter : parameters_.in_backward_order()) {
    reducer_.MarkReady(parameter->index());
  }
}

void TrainLoop::Impl::Update() {
  if (!status_.ok()) return;
  HeartbeatOf(comm_)->SetPhase(Phase::kExchange);
  parameters_.SettleGradients();  // of a rank without samples
  reducer_.Finish();
  std::array<double, 3> totals = {sums_.loss, static_cast<double>(sums_.tokens),
                                  requests_.stop ? 1.0 : 0.0};
  reducer_.ReduceScalars(totals);
  DT_CHECK(totals[1] > 0.0) << "no rank has called Add() with losses of any token in this update";
  loss_ = totals[0] / totals[1];
  is_stop_requested_ = totals[2] > 0.0;
  HeartbeatOf(comm_)->SetPhase(Phase::kUpdate);
  const ClippedGradients clipped =
      ClipGradients(parameters_, 1.0 / totals[1], options_.clip_norm, ctx_.stream());
  if (!clipped.is_finite) {
    status_ = DivergedError("a gradient is infinite or NaN: lower the learning rate");
    return;
  }
  const double rate = LearningRate(options_.learning_rate, state_.step, /*budget_used=*/0.0);
  adam_.Step(static_cast<float>(rate), clipped.gradient_scale, ctx_.stream());
  ++state_.step;
  state_.position.sample += options_.samples_per_update;
  if (state_.position.sample >= options_.samples_per_epoch) {
    state_.position = {.epoch = state_.position.epoch + 1};
  }
  is_saved_ = false;
  is_save_due_ = IsEvery(options_.checkpoint_every) || is_stop_requested_;
  if (!IsEvery(options_.check_replicas_every)) return;
  status_ = CheckReplicas(parameters_, "in your own training loop", comm_, ctx_.stream());
}

void TrainLoop::Impl::Evaluate(const std::string& metric, int64_t first, int64_t count,
                               const std::function<MeanParts(const SampleRange&)>& measure) {
  if (!status_.ok()) return;
  HeartbeatOf(comm_)->SetPhase(Phase::kEvaluation);
  ctx_.set_training(false);
  const SampleRange share{first + comm_.rank(), first + count, comm_.size()};
  const MeanParts own = share.empty() ? MeanParts() : measure(share);
  ctx_.set_training(true);
  std::array<double, 2> totals = {own.sum, own.count};
  comm_.AllReduce(std::span<double>(totals), ReduceOp::kSum);
  const double value = totals[0] / totals[1];
  const double gain =
      SmallerIsBetter(metric) ? state_.best_metric - value : value - state_.best_metric;
  const bool chooses = state_.best_metric_name.empty() || state_.best_metric_name == metric;
  const bool is_best = chooses && !std::isnan(value) && (state_.best_step < 0 || gain > 0.0);
  if (is_best) {
    state_.best_metric_name = metric;
    state_.best_metric = value;
    state_.best_step = state_.step;
    is_save_due_ = true;
  }
  if (comm_.is_root()) {
    std::printf("update %lld: loss %.4f, %s %.4f%s\n", static_cast<long long>(state_.step), loss_,
                metric.c_str(), value, is_best ? ", best" : "");
  }
}

Status TrainLoop::Impl::Finish() {
  if (!is_saved_) is_save_due_ = true;
  status_.Update(SaveIfDue());
  return status_;
}

Status TrainLoop::Impl::SaveIfDue() {
  if (!status_.ok() || !is_save_due_) return OkStatus();
  is_save_due_ = false;
  is_saved_ = true;
  if (options_.directory.empty()) return OkStatus();
  HeartbeatOf(comm_)->SetPhase(Phase::kCheckpoint);
  return ShareRootStatus(comm_.is_root() ? WriteCheckpoint() : OkStatus(), "write a checkpoint",
                         comm_);
}

Status TrainLoop::Impl::WriteCheckpoint() {
  DT_ASSIGN_OR_RETURN(
      CheckpointDirectory directory,
      CheckpointDirectory::Open(options_.directory, {.keep_last = options_.keep_last}));
  return directory
      .Save(state_.step, MakeCheckpointFiles(state_, parameters_, adam_, {}),
            state_.best_step == state_.step ? state_.best_metric_name : "")
      .status();
}

TrainLoop::TrainLoop(Communicator& comm, const StopFlags& requests, Context& ctx,
                     ParameterSet& parameters, Adam& adam, const TrainLoopOptions& options)
    : impl_(std::make_unique<Impl>(comm, requests, ctx, parameters, adam, options)) {}
TrainLoop::~TrainLoop() = default;

bool TrainLoop::NextUpdate() { return impl_->NextUpdate(); }
void TrainLoop::Add(const LossSums& sums) { impl_->Add(sums); }
void TrainLoop::Update() { impl_->Update(); }
void TrainLoop::Evaluate(const std::string& metric, int64_t first, int64_t count,
                         const std::function<MeanParts(const SampleRange&)>& measure) {
  impl_->Evaluate(metric, first, count, measure);
}
Status TrainLoop::Finish() { return impl_->Finish(); }
int64_t TrainLoop::step() const { return impl_->step(); }

TrainLoop::Iterator TrainLoop::Parts::begin() const {
  return {*loop.impl_, loop.impl_->BeginFrom(0)};
}
TrainLoop::Iterator TrainLoop::Parts::end() const {
  return {*loop.impl_, loop.impl_->micro_batches()};
}

TrainLoop::Iterator::Iterator(Impl& loop, int64_t part) : loop_(loop), part_(part) {}
SampleRange TrainLoop::Iterator::operator*() const { return loop_.RangeOf(part_); }
TrainLoop::Iterator& TrainLoop::Iterator::operator++() {
  part_ = loop_.BeginFrom(part_ + 1);
  return *this;
}

}  // namespace dtrain
