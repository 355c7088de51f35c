// custom_trainer.cc - a training program of your own: mpirun -n 4 custom_trainer.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <vector>

#include "dtrain/dtrain.h"
#include "reviews.h"

namespace {

using namespace dtrain;

// A model owns its layers and pairs Forward with a mirror-image Backward.
class SentimentModel {
 public:
  SentimentModel(const TransformerLayerOptions& options, const Device& device)
      : positions_({.max_length = kMaxLength, .hidden_size = options.hidden_size}),
        embedding_(scope_ / "embedding",
                   {.vocab_size = kVocabSize, .hidden_size = options.hidden_size}, positions_),
        encoder_(scope_ / "encoder", options),
        classes_(
            scope_.Add("classes.weight", {2, options.hidden_size}, Initializer::XavierUniform())),
        loss_(classes_, {}) {
    parameters_.Allocate(device, DType::kFloat32, /*seed=*/1);
  }

  LossSums Forward(const Reviews& batch, Context& ctx) {
    const Tensor embedded = embedding_.Forward(batch.ids, batch.sequences, ctx);
    const Tensor hidden = encoder_.Forward(embedded, Inputs(batch), ctx);
    const Tensor first = FirstToken(hidden, batch.sequences, ctx);
    return loss_.Forward(first, ctx.Upload(batch.labels), none_, ctx);
  }

  void Backward(const Reviews& batch, Context& ctx) {
    const Tensor d_first = loss_.Backward();
    classes_.GradientReady();
    const Tensor d_hidden = FirstTokenBackward(d_first, batch.sequences, ctx);
    embedding_.Backward(encoder_.Backward(d_hidden, Inputs(batch), none_, ctx), ctx);
  }

  ParameterSet& parameters() { return parameters_; }

 private:
  static LayerInputs Inputs(const Reviews& batch) {
    return {batch.sequences, Tensor(), batch.sequences};
  }

  ParameterSet parameters_;
  Scope scope_{parameters_, "sentiment"};
  SinusoidalPositions positions_;
  TokenEmbedding embedding_;
  TransformerLayer encoder_;
  Parameter& classes_;
  OutputLoss loss_;
  Tensor none_;
};

absl::Status Train(Runtime& runtime) {  // 1. mpirun's ranks are up, each with its device
  Communicator& comm = runtime.comm;
  Context ctx(runtime.device, {.rank = comm.rank()});
  SentimentModel model({.hidden_size = 64, .ffn_size = 128, .num_heads = 4}, runtime.device);
  ParameterSet& parameters = model.parameters();
  BroadcastParameters(parameters, comm);  // 2. every rank starts equal
  Adam adam(parameters, {.weight_decay = 0.01f});
  GradientReducer reducer(parameters, comm);  // 3. buckets leave as soon as they are full
  reducer.Listen();
  const LrScheduleOptions schedule{.kind = LrScheduleOptions::Kind::kLinear,
                                   .base = 3e-3,
                                   .warmup_steps = 20,
                                   .total_steps = 200};
  TrainState state;
  ctx.set_training(true);
  for (; state.step < schedule.total_steps; ++state.step) {
    const Reviews batch = MakeReviews(64, state.step * comm.size() + comm.rank());  // 4. its share
    ctx.set_step(static_cast<uint32_t>(state.step));
    Zero(parameters.gradients(), ctx.stream());
    const LossSums sums = model.Forward(batch, ctx);
    model.Backward(batch, ctx);
    reducer.Finish();
    double totals[] = {sums.loss, static_cast<double>(sums.tokens)};
    reducer.ReduceScalars(totals);
    const ClippedGradients clipped =
        ClipGradients(parameters, 1.0 / totals[1], /*max_norm=*/1.0, ctx.stream());
    if (!clipped.is_finite) return DivergedError("a gradient is infinite");
    adam.Step(static_cast<float>(LearningRate(schedule, state.step, 0.0)), clipped.gradient_scale,
              ctx.stream());
    if (comm.is_root() && (state.step + 1) % 50 == 0) {
      std::printf("step %d: loss %.3f\n", static_cast<int>(state.step) + 1, totals[0] / totals[1]);
    }
  }
  state.optimizer_steps = adam.steps();
  if (!comm.is_root()) return absl::OkStatus();
  DT_ASSIGN_OR_RETURN(CheckpointDirectory checkpoints, CheckpointDirectory::Open("sentiment"));
  return checkpoints  // 5. one rank writes
      .Save(state.step, MakeCheckpointFiles(state, parameters, adam, {}))
      .status();
}

}  // namespace

int main(int argc, char** argv) {
  return dtrain::RunOnRanks(argc, argv, {}, absl::OkStatus(), Train);
}
