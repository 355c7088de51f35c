// update_step.cc - micro-batches one after the other, then the sum over ranks and the optimizer.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/update_step.h"

#include <algorithm>
#include <array>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/device/arena.h"
#include "dtrain/ops/cast.h"

namespace dtrain {
namespace {

bool UsesGraphs(CudaGraphs graphs, const Device& device, int ranks) {
  if (device.type == DeviceType::kCpu) return false;
  return graphs == CudaGraphs::kOn || (graphs == CudaGraphs::kAuto && ranks == 1);
}

// Updates of which one is measured. The root does it for all, where it has the gradients of all.
int64_t NormsEvery(const TrainerOptions& options, const Communicator& comm,
                   GradientStrategy& strategy) {
  constexpr int64_t kRecords = 10;
  const bool has_all = comm.is_root() && strategy.shards() == nullptr;
  return options.details && has_all ? kRecords * options.log_every : 0;
}

}  // namespace

UpdateStep::UpdateStep(TrainingTask& task, Communicator& comm, Context& ctx, StepTimeline& timeline,
                       GradientStrategy& strategy, DeviceStep& device_step,
                       const TrainerOptions& options)
    : task_(task),
      comm_(comm),
      ctx_(ctx),
      timeline_(timeline),
      strategy_(strategy),
      device_step_(device_step),
      options_(options),
      graphs_(UsesGraphs(options.cuda_graphs, ctx.device(), comm.size()), ctx),
      norms_(task.parameters(), NormsEvery(options, comm, strategy)) {}

UpdateStep::~UpdateStep() { ctx_.set_loss({}); }

StatusOr<IssuedUpdate> UpdateStep::ComputeGradients(int64_t step, RequestInbox& inbox,
                                                    const RunClock& clock) {
  IssuedUpdate update;
  Timer timer;
  HeartbeatOf(comm_)->SetStep(step);
  const auto next = [&] {
    const auto span = timeline_.Enter(Phase::kData);
    return task_.NextUpdate();
  };
  DT_ASSIGN_OR_RETURN(const int micro_batches, next());
  DT_CHECK(micro_batches >= 1 && micro_batches <= kMaxMicroBatches)
      << "NextUpdate() gave " << micro_batches << " micro-batches, of 1 to " << kMaxMicroBatches
      << "; a rank without data gives 1, with an empty batch";
  update.data_seconds = timer.Restart();
  const BatchInfo batch = task_.batch();
  update.source_tokens = static_cast<double>(batch.source_tokens);
  DT_RETURN_IF_ERROR(strategy_.BeginUpdate(batch.global_tokens));
  RunMicroBatches(micro_batches, step, update.sums);
  const auto span = timeline_.Enter(Phase::kExchange);
  timer.Restart();
  strategy_.FinishGradients();
  update.comm_seconds = timer.Seconds();
  ExchangeScalars(inbox, clock, update);
  return update;
}

void UpdateStep::RunMicroBatches(int count, int64_t step, LossSums& sums) {
  ctx_.set_training(true);
  ctx_.activations().ResetPeak();  // evaluations need other amounts
  task_.parameters().BeginGradients(ctx_.stream());
  ctx_.set_loss({device_step_.loss_scale(), device_step_.loss_sum(), device_step_.nll_sum()});
  for (int i = 0; i < count; ++i) {
    ctx_.set_step(step, i);
    sums += RunMicroBatch(i, i == count - 1);
  }
  ctx_.set_training(false);
  DT_CHECK(!options_.loss_scaler.on || sums.loss == 0.0)
      << "a task whose losses come back to the host does not scale them by ctx.loss()";
  activation_peak_ = std::max(activation_peak_, static_cast<int64_t>(ctx_.activations().peak()));
}

LossSums UpdateStep::RunMicroBatch(int i, bool is_last) {
  task_.Upload(i, ctx_);
  const auto forward_and_backward = [&] {
    const LossSums sums = [&] {
      const auto span = timeline_.Enter(Phase::kForward, i);
      return task_.Forward(i, ctx_);
    }();
    const auto span = timeline_.Enter(Phase::kBackward, i);
    task_.Backward(ctx_);
    task_.parameters().SettleGradients();
    return sums;
  };
  const std::string key = graphs_.is_on() ? task_.GraphKey() : "";
  if (!key.empty()) {
    const Timeline::Span span(timeline_.spans(), "graph", kComputeLane, i);
    // The first micro-batch overwrites gradients to which the others add.
    const LossSums sums =
        graphs_.Run(absl::StrCat(key, i == 0 ? " first @" : " @", ctx_.activations().Layout()),
                    forward_and_backward);
    task_.parameters().SettleGradients(/*by_graph=*/true);
    if (is_last) strategy_.MarkAllReady();
    return sums;
  }
  // Only the last micro-batch completes the gradients; the others accumulate.
  if (!is_last) return forward_and_backward();
  LossSums sums;
  strategy_.ListenTo([&] { sums = forward_and_backward(); });
  return sums;
}

void UpdateStep::ExchangeScalars(RequestInbox& inbox, const RunClock& clock, IssuedUpdate& update) {
  const Requests own = inbox.Read();
  std::array<double, 6> sums = {static_cast<double>(update.sums.tokens),
                                update.source_tokens,
                                own.checkpoint ? 1.0 : 0.0,
                                own.stop ? 1.0 : 0.0,
                                comm_.is_root() ? clock.Seconds() : 0.0,
                                own.timeline ? 1.0 : 0.0};
  comm_.AllReduce(std::span<double>(sums), ReduceOp::kSum);
  update.own_tokens = update.sums.tokens;
  update.sums.tokens = static_cast<int64_t>(sums[0]);
  update.source_tokens = sums[1];
  update.seconds = sums[4];
  update.requests = inbox.DropRepeated(
      {.checkpoint = sums[2] > 0.0, .stop = sums[3] > 0.0, .timeline = sums[5] > 0.0});
  const int64_t promised = task_.batch().global_tokens;
  DT_CHECK(promised == 0 || promised == update.sums.tokens)
      << "the task gave BatchInfo::global_tokens = " << promised
      << ", but the losses of all ranks cover " << update.sums.tokens << " tokens";
  DT_CHECK(update.sums.tokens > 0) << "the task gives LossSums without tokens on every rank";
}

void UpdateStep::ApplyGradients(const IssuedUpdate& update) {
  const auto span = timeline_.Enter(Phase::kUpdate);
  Stream& stream = ctx_.stream();
  if (norms_.IsDue(update.step)) norms_.Before(stream);
  const int64_t learned = strategy_.CountTokens(update.own_tokens, update.sums.tokens);
  device_step_.SetInputs(
      {.learning_rate = update.learning_rate, .tokens = static_cast<double>(learned)}, stream);
  // Ranks that have shards exchange meanwhile, which is not recorded.
  static_cast<void>(graphs_.Run(strategy_.shards() == nullptr ? "update" : "", [&] {
    Tensor squares = device_step_.squares();
    strategy_.SumOfSquares(squares, stream);
    device_step_.Decide(stream);
    strategy_.optimizer().Step(device_step_.adam(), device_step_.average_decay(), stream);
    strategy_.GatherWeights(update.step, stream);
    return LossSums();
  }));
  if (norms_.IsDue(update.step)) norms_.After(update.step, stream);
  ++count_;
}

std::string UpdateStep::DescribeMemory() const {
  if (options_.planned_activation_bytes == 0 || count_ == 0) return "";
  const auto mebibytes = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  return absl::StrFormat("activations took %.1f MiB at most in %d updates, %.1f MiB were planned",
                         mebibytes(activation_peak_), count_,
                         mebibytes(options_.planned_activation_bytes));
}

}  // namespace dtrain
