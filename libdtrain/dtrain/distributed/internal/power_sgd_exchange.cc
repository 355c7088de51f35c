// power_sgd_exchange.cc - plain sums at first, the rounds of PowerSGD from the start step on.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/power_sgd_exchange.h"

#include <chrono>
#include <thread>

#include "dtrain/base/check.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/comm/internal/heartbeat_wait.h"
#include "dtrain/device/copy.h"
#include "dtrain/distributed/internal/plain_exchange.h"

namespace dtrain::internal {
namespace {

// Seconds in which nothing is sent. After the first limit a rank counts as waiting. After the
// second one a handle's own Wait() takes over: it moves one communicator alone, and names late
// ranks.
constexpr double kIdleSeconds = 0.1;
constexpr double kPatienceSeconds = 1.0;
constexpr std::chrono::microseconds kPause(20);

MatrixCompressor MakeCompressor(const PowerSgdOptions& options, Communicator& comm) {
  DT_CHECK_GT(options.rank, 0);
  DT_CHECK_GE(options.start_step, 0);
  MatrixCompressor compressor(options.seed);
  compressor.memory().rank = options.rank;
  compressor.memory().grid = FindWorkers(comm);
  return compressor;
}

int PlaceOfThisRank(const PowerSgdMemory& memory, const Communicator& comm) {
  return memory.grid.place[static_cast<size_t>(comm.rank())];
}

}  // namespace

PowerSgdExchange::PowerSgdExchange(const Tensor& flat, const std::vector<BucketRange>& buckets,
                                   const std::vector<GradientRange>& parameters, Communicator& comm,
                                   const GradientReducerOptions& options)
    : gradients_(std::make_shared<HostGradients>(flat, options.stream)),
      wire_type_(options.wire_type),
      start_step_(options.power_sgd.start_step),
      compressor_(MakeCompressor(options.power_sgd, comm)),
      groups_(comm, compressor_.memory().grid),
      layout_(buckets, parameters, PlaceOfThisRank(compressor_.memory(), comm),
              &compressor_.memory()),
      plain_(MakePlainExchange(gradients_, buckets, comm, options.wire_type)) {
  WarnIfNothingShrinks(compressor_.memory(), comm);
  SetStep(0);
}

void PowerSgdExchange::SetStep(int64_t step) {
  DT_CHECK_GE(step, step_);
  step_ = step;
  if (!rounds_ && step_ >= start_step_ && !compressor_.memory().matrices.empty()) {
    plain_.reset();
    compressor_.Allocate(PlaceOfThisRank(compressor_.memory(), groups_.all()));
    rounds_.emplace(layout_, gradients_->data(), wire_type_, compressor_, groups_);
  }
  if (rounds_) rounds_->SetStep(step);
}

float PowerSgdExchange::ReadUnit() {
  float scale = 1.0f;
  if (gradient_scale_) {
    CopyToHost(&scale, gradient_scale_.raw(), sizeof(scale), gradients_->stream());
  }
  return static_cast<float>(double{scale} * gradient_tokens_);
}

void PowerSgdExchange::Prepare(int bucket) {
  if (plain_) return plain_->Prepare(bucket);
  const size_t begin = layout_.begin_of(bucket);
  const size_t end = layout_.end_of(bucket);
  gradients_->Fetch({layout_.pieces()[begin].range.begin, layout_.pieces()[end - 1].range.end});
  if (bucket == 0) compressor_.SetUnit(ReadUnit());
  rounds_->Prepare(begin, end);
}

void PowerSgdExchange::Start(int bucket) {
  if (plain_) return plain_->Start(bucket);
  rounds_->Start(layout_.begin_of(bucket), layout_.end_of(bucket));
}

void PowerSgdExchange::Poll() {
  if (plain_) return plain_->Poll();
  groups_.Poll();
  rounds_->Advance();
}

bool PowerSgdExchange::HasArrived(int bucket) {
  return plain_ ? plain_->HasArrived(bucket) : rounds_->HaveArrived(layout_.end_of(bucket));
}

void PowerSgdExchange::Land(int bucket) {
  if (plain_) return plain_->Land(bucket);
  const size_t end = layout_.end_of(bucket);
  HeartbeatWait mark(HeartbeatOf(groups_.all()).get());
  Timer idle;
  int64_t sent = BytesSent();
  while (!rounds_->HaveArrived(end) && idle.Seconds() < kPatienceSeconds) {
    mark.Round();
    Poll();
    if (BytesSent() != sent) {
      sent = BytesSent();
      mark.Moved();
      idle.Restart();
      continue;
    }
    std::this_thread::sleep_for(kPause);
    if (idle.Seconds() > kIdleSeconds) mark.Idle();
  }
  rounds_->Wait(end);
}

void PowerSgdExchange::Settle() {
  if (plain_) {
    plain_->Settle();
  } else {
    if (!rounds_->Finish()) compressor_.Spoil(gradients_->data());
    for (const FactorPiece& piece : layout_.pieces()) gradients_->Return(piece.range);
    gradients_->Synchronize();
  }
  SetStep(step_ + 1);
}

int64_t PowerSgdExchange::BytesOf(int bucket) const {
  if (plain_) return plain_->BytesOf(bucket);
  return static_cast<int64_t>(SizeOf(wire_type_)) * layout_.TravellingElements(bucket);
}

}  // namespace dtrain::internal
