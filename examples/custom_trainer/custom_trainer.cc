// custom_trainer.cc - your own training loop, resumable and on any number of ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 4 custom_trainer sentiment 400 [bf16]
#include <cstdlib>
#include <string>

#include "dtrain/dtrain.h"
#include "reviews.h"
#include "sentiment_model.h"

using namespace dtrain;

constexpr int64_t kTrainReviews = 6'401, kDevReviews = 256;

static MeanParts CountRight(SentimentModel& model, const Reviews& batch, Context& ctx) {
  Tensor predictions = ctx.Empty({batch.sequences.count()}, DType::kInt32);
  model.Forward(batch, ctx, predictions);
  const std::vector<int32_t> classes = Download<int32_t>(predictions, ctx.stream());
  MeanParts right{.count = static_cast<double>(classes.size())};
  for (size_t i = 0; i < classes.size(); ++i) right.sum += classes[i] == batch.labels[i];
  return right;
}

static Status Train(const std::string& directory, int64_t updates, DType type, Runtime& runtime) {
  // 1. mpirun has started the ranks; each has its device.
  Context ctx(runtime.device, {.compute_type = type, .rank = runtime.comm.rank()});
  SentimentModel model({.hidden_size = 64, .ffn_size = 128, .num_heads = 4, .dropout = 0.1f},
                       runtime.device, type);
  Adam adam(model.parameters(), {.weight_decay = 0.01f});
  // 2. Every rank starts with the same weights: the newest checkpoint's, or rank 0's.
  TrainLoop loop(runtime.comm, runtime.StopRequests(), ctx, model.parameters(), adam,
                 {.directory = directory,
                  .updates = updates,
                  .samples_per_epoch = kTrainReviews,
                  .samples_per_update = 128,
                  .micro_batches = 2,
                  .learning_rate = {.base = 3e-3, .warmup_steps = 20}});
  while (loop.NextUpdate()) {
    // 3. Each rank trains on its share of the update; gradients travel during Backward.
    for (const SampleRange& part : loop.MicroBatches()) {
      const Reviews batch = MakeReviews(part, ctx);
      loop.Add(model.Forward(batch, ctx));
      model.Backward(batch, ctx);
    }
    // 4. Gradients are summed over the ranks, clipped and applied.
    loop.Update();
    // 5. All ranks evaluate, rank 0 prints, the best checkpoint is kept.
    if (!loop.IsEvery(50)) continue;
    loop.Evaluate("accuracy", kTrainReviews, kDevReviews, [&](const SampleRange& share) {
      return CountRight(model, MakeReviews(share, ctx), ctx);
    });
  }
  return loop.Finish();
}

int main(int argc, char** argv) {
  const std::string directory = argc > 1 ? argv[1] : "sentiment";
  const int64_t updates = argc > 2 ? std::atoll(argv[2]) : 400;
  const bool is_bf16 = argc > 3 && std::string(argv[3]) == "bf16";
  return RunOnRanks(argc, argv, {}, OkStatus(), [&](Runtime& runtime) {
    return Train(directory, updates, is_bf16 ? DType::kBFloat16 : DType::kFloat32, runtime);
  });
}
