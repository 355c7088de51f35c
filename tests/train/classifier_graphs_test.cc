// classifier_graphs_test.cc - recorded steps of a classifier train it to the same bits.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "testing/catch.h"
#include "testing/toy_classifier.h"

namespace dtrain {
namespace {

using testing::TestDevice;

bool OnGpu() { return TestDevice().type == DeviceType::kCuda; }

// Each update is the whole set: other places in each batch, but the same shapes.
ToyClassifierRun RepeatingRun(const ToyTexts& texts, CudaGraphs graphs) {
  ToyClassifierRun run = MakeToyClassifierRun(texts);
  run.task.compute_type = OnGpu() ? DType::kFloat16 : DType::kFloat32;
  run.task.model.bert.dropout = run.task.model.bert.attention_dropout = 0.1f;
  run.task.model.classifier_dropout = 0.1f;
  run.task.batch.samples_per_batch = 12;
  run.trainer.max_steps = 6;
  // The first updates overflow and are skipped.
  run.trainer.loss_scaler = {
      .on = OnGpu(), .initial = 1073741824.0, .maximum = 1073741824.0, .growth_interval = 2};
  run.trainer.cuda_graphs = graphs;
  return run;
}

void CheckSameRun(const ToyClassifierResult& actual, const ToyClassifierResult& expected) {
  CHECK(actual.exit_code == expected.exit_code);
  CHECK(actual.losses == expected.losses);
  CHECK(actual.rows == expected.rows);
  CHECK(actual.weights == expected.weights);
  CHECK(actual.skipped == expected.skipped);
}

TEST_CASE("a classifier's steps that are repeated from graphs give the bits of issued ones") {
  for (const LabelKind kind : {LabelKind::kClass, LabelKind::kMultiLabel}) {
    const ToyTexts texts(kind, 12, 4);
    ToyClassifierRun run = RepeatingRun(texts, CudaGraphs::kOff);
    run.task.model.label_weights = {0.5f, 2.0f, 1.0f};
    const ToyClassifierResult issued = TrainToyClassifier(run)[0];
    CHECK(issued.message == "");
    CHECK(issued.graphs_repeated == 0);
    CHECK(issued.losses.size() == 6);
    run.trainer.cuda_graphs = CudaGraphs::kAuto;
    const ToyClassifierResult repeated = TrainToyClassifier(run)[0];
    CheckSameRun(repeated, issued);
    // The micro-batch and the update, each issued twice and recorded then.
    CHECK(repeated.graphs_recorded == (OnGpu() ? 2 : 0));
    CHECK(repeated.graphs_repeated == (OnGpu() ? 2 * 4 : 0));
    if (OnGpu()) CHECK(issued.skipped > 0);
  }
}

TEST_CASE("so do a classifier's micro-batches on several ranks, and with recomputation") {
  const ToyTexts texts(LabelKind::kClass, 12, 4);
  const auto run_with = [&](CudaGraphs graphs) {
    ToyClassifierRun run = RepeatingRun(texts, graphs);
    run.ranks = 2;
    run.recompute = Recompute::kCheap;
    run.task.micro_batch_tokens = 42;
    run.trainer.max_steps = 4;
    return TrainToyClassifier(run);
  };
  const std::vector<ToyClassifierResult> issued = run_with(CudaGraphs::kOff);
  const std::vector<ToyClassifierResult> repeated = run_with(CudaGraphs::kOn);
  for (size_t rank = 0; rank < 2; ++rank) CheckSameRun(repeated[rank], issued[rank]);
  if (OnGpu()) CHECK(repeated[0].graphs_repeated >= 2);
}

}  // namespace
}  // namespace dtrain
