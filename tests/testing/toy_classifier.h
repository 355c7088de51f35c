// toy_classifier.h - short runs of the real trainer that classify generated texts, on threads.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTING_TOY_CLASSIFIER_H_
#define DTRAIN_TESTING_TOY_CLASSIFIER_H_

#include <limits>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/tasks/classification/task.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"
#include "testing/toy_bert.h"
#include "testing/toy_run.h"

namespace dtrain {

inline constexpr float kNoLabel = std::numeric_limits<float>::quiet_NaN();

// A folder of shards. A text is random words between 3 ([CLS]) and 4 ([SEP]); its label says which
// of the words 10, 11, ... it holds.
class ToyTexts {
 public:
  explicit ToyTexts(LabelKind kind = LabelKind::kClass, int train = 90, int dev = 31)
      : kind_(kind) {
    Write("train", train, 1);
    Write("dev", dev, 2);
  }
  std::string path() const { return folder_.path(); }

  void Write(const std::string& name, int rows, uint64_t seed, bool labelled = true,
             std::vector<std::string> names = {"dog", "cat", "cow"}) const {
    if (kind_ == LabelKind::kValue) names.clear();
    const ClassificationShardInfo info{
        .vocab_size = 40,
        .vocab_hash = 7,
        .label_kind = kind_,
        .labels_per_row = kind_ == LabelKind::kMultiLabel ? static_cast<int32_t>(names.size()) : 1,
        .label_names = names};
    auto writer = ClassificationShardWriter::Create(folder_.File(name + ".bin"), info);
    REQUIRE(writer.ok());
    for (int row = 0; row < rows; ++row) {
      RandomStream random({.seed = seed, .site = static_cast<uint32_t>(row)});
      const uint32_t answer = random.NextBelow(3);
      std::vector<int32_t> ids = {3};
      for (uint32_t t = 1 + random.NextBelow(12); t > 0; --t) {
        ids.push_back(static_cast<int32_t>(13 + random.NextBelow(27)));
      }
      ids[1] = static_cast<int32_t>(10 + answer);
      ids.push_back(4);
      std::vector<float> labels = {static_cast<float>(answer)};
      if (kind_ == LabelKind::kMultiLabel) {
        labels = {answer == 0 ? 1.0f : 0.0f, answer != 1 ? 1.0f : 0.0f, random.NextUniform()};
      }
      if (!labelled) labels.assign(labels.size(), kNoLabel);
      const std::string text_name = row % 2 == 0 ? "t" + std::to_string(row) : "";
      REQUIRE(writer
                  ->Add({.ids = ids,
                         .first_length = static_cast<int32_t>(ids.size()),
                         .labels = labels,
                         .weight = 0.5f + static_cast<float>(row % 3) / 2.0f,
                         .row = row + 1,
                         .name = text_name})
                  .ok());
    }
    REQUIRE(writer->Finish("{}").ok());
  }

 private:
  LabelKind kind_;
  TemporaryFolder folder_;
};

struct ToyClassifierRun {
  int ranks = 1;
  ClassificationTaskOptions task = {};
  TrainerOptions trainer = {};
  Recompute recompute = Recompute::kNone;
  int64_t stop_at = -1;  // the update during which a stop is asked for
};

// A run of 8 updates of 16 texts with a model of 2 layers.
inline ToyClassifierRun MakeToyClassifierRun(const ToyTexts& texts) {
  ToyClassifierRun run;
  run.task.train = texts.path() + "/train.bin";
  run.task.dev = {{"dev", texts.path() + "/dev.bin"}};
  run.task.device = testing::TestDevice();
  run.task.model.bert = ToyBertOptions();
  run.task.model.classifier_dropout = 0.0f;
  run.task.batch = {.samples_per_batch = 16};
  run.task.eval_batch_tokens = 64;
  run.trainer = ToyBertTrainer(/*max_steps=*/8, "loss");
  return run;
}

using ToyClassifierResult = ToyResult;

namespace internal {

inline ToyClassifierResult TrainClassifierOnRank(const ToyClassifierRun& run, Communicator& comm) {
  auto task = ClassificationTask::Create(run.task, comm);
  if (!task.ok()) return FailedResult(task.status());
  return TrainToyTask(**task, run.trainer,
                      {.compute_type = run.task.compute_type, .recompute = run.recompute},
                      run.task.device, run.stop_at, comm);
}

}  // namespace internal

// Trains on run.ranks threads, without NCCL, which refuses ranks that share a GPU; results by rank.
inline std::vector<ToyClassifierResult> TrainToyClassifier(const ToyClassifierRun& run) {
  return testing::RunRanks(
      run.ranks, [&](Communicator& comm) { return internal::TrainClassifierOnRank(run, comm); },
      {.nccl = false});
}

}  // namespace dtrain

#endif  // DTRAIN_TESTING_TOY_CLASSIFIER_H_
