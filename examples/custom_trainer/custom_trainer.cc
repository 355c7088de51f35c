// custom_trainer.cc - a training loop of your own, with what one that is kept needs.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 4 custom_trainer --dir=sentiment --updates=400 [--bf16] [--dropout=0.1]
//
// The same command goes on where an earlier one stopped, on any number of ranks.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "dtrain/config/flag_set.h"
#include "dtrain/dtrain.h"
#include "reviews.h"
#include "sentiment_model.h"

namespace {

using namespace dtrain;

constexpr int64_t kUpdateReviews = 128;   // over all ranks and micro-batches
constexpr int64_t kMicroBatches = 2;      // of an update: the memory of half of it
constexpr int64_t kEpochReviews = 6'401;  // its last update has one review: most ranks have none
constexpr int64_t kDevReviews = 256;
constexpr int64_t kEvaluateEvery = 50;

struct Options {
  std::string dir = "sentiment";
  int64_t updates = 400;
  double dropout = 0.1;
  bool bf16 = false;
  DType type() const { return bf16 ? DType::kBFloat16 : DType::kFloat32; }
};

// Leaves the sums of all ranks' gradients of one update, and gives the sums of this rank's losses.
LossSums Accumulate(SentimentModel& model, GradientReducer& reducer, const TrainState& state,
                    Communicator& comm, Context& ctx) {
  Zero(model.parameters().gradients(), ctx.stream());
  LossSums sums;
  Tensor none;
  const int64_t begin = state.position.sample;
  const int64_t end = std::min(begin + kUpdateReviews, kEpochReviews);
  for (int64_t i = 0; i < kMicroBatches; ++i) {
    Reviews batch = MakeReviews(begin + i * comm.size() + comm.rank(), end,
                                kMicroBatches * comm.size());  // its share of the update
    // Dropout draws by the update and the numbers of the rows: a resumed run draws on, and ranks
    // drop what one process would.
    ctx.set_step(state.step, i);
    batch.sequences.set_row_numbers(ctx.Upload(batch.sequences.NumberRows()));
    const bool is_last = i == kMicroBatches - 1;
    if (is_last) reducer.Listen();  // only now gradients are complete, and travel
    if (!batch.labels.empty()) {
      sums += model.Forward(batch, none, ctx);
      model.Backward(batch, ctx);
    } else if (is_last) {  // a rank without reviews has its part in the exchange all the same
      for (const Parameter* parameter : model.parameters().in_backward_order()) {
        reducer.MarkReady(parameter->index());
      }
    }
  }
  reducer.StopListening();
  comm.pulse().SetPhase(Phase::kExchange);
  reducer.Finish();
  return sums;
}

// Each rank counts its share of the held-out reviews; counts add up to the same on any number.
double Accuracy(SentimentModel& model, Communicator& comm, Context& ctx) {
  comm.pulse().SetPhase(Phase::kEvaluation);  // may take longer than an update without a warning
  ctx.set_training(false);
  const Reviews batch =
      MakeReviews(kEpochReviews + comm.rank(), kEpochReviews + kDevReviews, comm.size());
  ConfusionMatrix matrix(2);
  if (!batch.labels.empty()) {
    Tensor predictions = ctx.Empty({static_cast<int64_t>(batch.labels.size())}, DType::kInt32);
    model.Forward(batch, predictions, ctx);
    const std::vector<int32_t> said = Download<int32_t>(predictions, ctx.stream());
    for (size_t i = 0; i < said.size(); ++i) matrix.Add(batch.labels[i], said[i]);
  }
  comm.AllReduce(matrix.counts(), ReduceOp::kSum);
  ctx.set_training(true);
  return matrix.Accuracy();
}

// One rank writes; an error of its disk ends all of them.
absl::Status Save(const Options& options, const TrainState& state, ParameterSet& parameters,
                  Adam& adam, Communicator& comm) {
  comm.pulse().SetPhase(Phase::kCheckpoint);
  const auto write = [&]() -> absl::Status {
    DT_ASSIGN_OR_RETURN(CheckpointDirectory directory, CheckpointDirectory::Open(options.dir));
    return directory
        .Save(state.step, MakeCheckpointFiles(state, parameters, adam, {}),
              state.best_step == state.step ? "accuracy" : "")  // the best one is kept
        .status();
  };
  return ShareRootStatus(comm.is_root() ? write() : absl::OkStatus(), "write a checkpoint", comm);
}

absl::Status Train(const Options& options, Runtime& runtime) {
  Communicator& comm = runtime.comm;  // mpirun's ranks are up, each with its device
  Context ctx(runtime.device, {.compute_type = options.type(), .rank = comm.rank()});
  SentimentModel model({.hidden_size = 64,
                        .ffn_size = 128,
                        .num_heads = 4,
                        .dropout = static_cast<float>(options.dropout)},
                       runtime.device, options.type());  // the context's type
  ParameterSet& parameters = model.parameters();
  Adam adam(parameters, {.weight_decay = 0.01f});
  GradientReducer reducer(parameters, comm);
  // Constant after its warm-up: it does not depend on where the run ends, so that more updates can
  // be asked for later.
  const LrScheduleOptions schedule{
      .kind = LrScheduleOptions::Kind::kConstant, .base = 3e-3, .warmup_steps = 20};
  TrainState state;  // every rank starts with the root's, from a checkpoint where there is one
  DT_ASSIGN_OR_RETURN(const bool resumed,
                      ResumeCheckpoint(options.dir, parameters, adam, state, comm));
  if (resumed && comm.is_root()) std::printf("going on from update %ld\n", state.step);
  const StopFlags& requests = runtime.StopRequests();  // from here on TERM asks
  ctx.set_training(true);
  while (state.step < options.updates) {
    comm.pulse().SetStep(state.step);  // a rank that is late or lost is named with these
    comm.pulse().SetPhase(Phase::kForward);
    const LossSums sums = Accumulate(model, reducer, state, comm, ctx);
    // The signal may reach one rank, or each at another update: the sum decides for all.
    double totals[] = {sums.loss, static_cast<double>(sums.tokens), requests.stop ? 1.0 : 0.0};
    reducer.ReduceScalars(totals);
    const ClippedGradients clipped =
        ClipGradients(parameters, 1.0 / totals[1], /*max_norm=*/1.0, ctx.stream());
    if (!clipped.is_finite) return DivergedError("a gradient is infinite");
    adam.Step(static_cast<float>(LearningRate(schedule, state.step, 0.0)), clipped.gradient_scale,
              ctx.stream());
    ++state.step;
    state.position.sample += kUpdateReviews;  // in checkpoints: the data goes on where it stood
    if (state.position.sample >= kEpochReviews)
      state.position = {.epoch = state.position.epoch + 1};
    const bool stops = totals[2] > 0.0;
    const bool evaluates = state.step % kEvaluateEvery == 0;
    if (evaluates) {
      const double accuracy = Accuracy(model, comm, ctx);
      const bool is_best = state.best_step < 0 || accuracy > state.best_metric;
      if (is_best) {
        state.best_step = state.step;
        state.best_metric = accuracy;
      }
      if (comm.is_root()) {
        std::printf("update %ld: loss %.4f, accuracy %.4f%s\n", state.step, totals[0] / totals[1],
                    accuracy, is_best ? ", best" : "");
      }
    }
    if (state.step % 100 == 0) {  // a rank that drifted away would spoil the rest unseen
      DT_RETURN_IF_ERROR(CheckReplicas(parameters, "after 100 updates more", comm, ctx.stream()));
    }
    if (evaluates || stops || state.step == options.updates) {
      DT_RETURN_IF_ERROR(Save(options, state, parameters, adam, comm));
    }
    if (stops) return StoppedError("the same command goes on");  // exit code 75
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  FlagSet flags("custom_trainer", "trains a sentiment model");
  flags.Add("dir", "checkpoints", &options.dir);
  flags.Add("updates", "of the whole run", &options.updates);
  flags.Add("dropout", "probability", &options.dropout);
  flags.Add("bf16", "compute in bfloat16", &options.bf16);
  const absl::Status parsed = flags.ParseAll(argc, argv);
  if (parsed.ok() && flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return 0;
  }
  return RunOnRanks(argc, argv, {}, parsed,
                    [&](Runtime& runtime) { return Train(options, runtime); });
}
