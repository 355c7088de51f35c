// mpi_shards_test.cc - processes with shards of the optimizer have the weights of those without.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "testing/catch.h"
#include "testing/mpi_world.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

// Trains up to `steps` updates; the root's checkpoints are in `folder`.
ToyResult TrainTo(int64_t steps, bool shards, const ToyCorpus& corpus,
                  const TemporaryFolder& folder) {
  ToyRun run = MakeToyRun(corpus);
  run.trainer.max_steps = steps;
  run.trainer.adam.weight_decay = 0.01f;
  run.trainer.clip_norm = 0.5;
  run.trainer.shard_optimizer = shards;
  run.trainer.checkpoint_dir = folder.File(shards ? "sharded" : "whole");
  run.trainer.best_metric = "nll";
  run.resume = "auto";
  return internal::TrainOnRank(run, testing::MpiWorld());
}

TEST_CASE("processes with shards have the weights of processes without, and resume") {
  const ToyCorpus corpus(24, 1);  // the same in each process
  const TemporaryFolder folder;
  for (const int64_t steps : {2, 3}) {
    const ToyResult whole = TrainTo(steps, /*shards=*/false, corpus, folder);
    const ToyResult sharded = TrainTo(steps, /*shards=*/true, corpus, folder);
    CHECK(sharded.message == "");
    CHECK(sharded.state.step == steps);
    CHECK(sharded.weights == whole.weights);
  }
}

}  // namespace
}  // namespace dtrain
