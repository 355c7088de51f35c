// task.cc - feeds the model from shards; evaluations are shared among the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/task.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/log.h"
#include "dtrain/runs/record_names.h"
#include "dtrain/tasks/shared/evaluated_rows.h"
#include "dtrain/train/micro_batches.h"

namespace dtrain {
namespace {

int32_t LongestOf(const ClassificationShard& shard) {
  const std::span<const int32_t> lengths = shard.lengths();
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

Status CheckLongest(const ClassificationShard& shard, const BertOptions& model) {
  if (LongestOf(shard) <= model.max_positions) return OkStatus();
  return UsageError(absl::StrFormat(
      "%s holds a text of %d tokens, but the model has %d positions; prepare the data with "
      "data.max_length=%d",
      shard.path(), LongestOf(shard), model.max_positions, model.max_positions));
}

// The weights with which all classes count alike: N / (K n), 1 in the mean over the texts.
StatusOr<std::vector<float>> BalancedWeights(const ClassificationShard& train) {
  const ClassificationShardInfo& info = train.info();
  if (info.label_kind != LabelKind::kClass) {
    return UsageError(
        "trainer.balance_labels weighs classes, but these texts have none (data.labels); leave it "
        "out");
  }
  const std::vector<int64_t> rows = CountLabels(train);
  const auto all = static_cast<double>(CountLabelled(train));
  std::vector<float> weights;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double count = static_cast<double>(rows.size()) * static_cast<double>(rows[i]);
    // A class without texts has no loss to weigh.
    weights.push_back(rows[i] > 0 ? static_cast<float>(all / count) : 1.0F);
  }
  return weights;
}

StatusOr<BertClassifierOptions> FitModel(BertClassifierOptions model,
                                         const ClassificationShard& train) {
  const ClassificationShardInfo& info = train.info();
  model.loss = LossOf(info.label_kind);
  model.num_labels = OutputsOf(info);
  if (model.bert.vocab_size == 0) model.bert.vocab_size = info.vocab_size;
  if (model.bert.vocab_size < info.vocab_size) {
    return UsageError(absl::StrFormat(
        "%s was prepared with a vocabulary of %d pieces, but the model knows %d; give the "
        "vocabulary that belongs to the model",
        train.path(), info.vocab_size, model.bert.vocab_size));
  }
  if (!model.label_weights.empty() &&
      static_cast<int64_t>(model.label_weights.size()) != model.num_labels) {
    return UsageError(absl::StrFormat("trainer.label_weights lists %d weights for %d labels (%s)",
                                      model.label_weights.size(), model.num_labels,
                                      absl::StrJoin(info.label_names, ", ")));
  }
  DT_RETURN_IF_ERROR(CheckLongest(train, model.bert));
  return model;
}

Status CheckSameLabels(const ClassificationShard& shard, const ClassificationShard& train) {
  const ClassificationShardInfo& ours = shard.info();
  const ClassificationShardInfo& theirs = train.info();
  if (ours.label_kind == theirs.label_kind && ours.label_names == theirs.label_names &&
      ours.labels_per_row == theirs.labels_per_row) {
    return OkStatus();
  }
  return DataError(absl::StrFormat("%s has labels (%s), %s has (%s); prepare them together",
                                   shard.path(), absl::StrJoin(ours.label_names, ", "),
                                   train.path(), absl::StrJoin(theirs.label_names, ", ")));
}

}  // namespace

StatusOr<std::unique_ptr<ClassificationTask>> ClassificationTask::Create(
    const ClassificationTaskOptions& options, Communicator& comm) {
  DT_RETURN_IF_ERROR(CheckComputeType(options.compute_type, options.device));
  DT_ASSIGN_OR_RETURN(ClassificationShard train, ClassificationShard::Open(options.train));
  ClassificationTaskOptions fitted = options;
  if (options.balance_labels) {
    DT_ASSIGN_OR_RETURN(fitted.model.label_weights, BalancedWeights(train));
  }
  DT_ASSIGN_OR_RETURN(fitted.model, FitModel(fitted.model, train));
  DT_RETURN_IF_ERROR(
      CheckMicroBatches(options.batch, options.micro_batch_tokens, LongestOf(train), comm.size()));
  std::unique_ptr<ClassificationTask> task(new ClassificationTask(fitted, comm, std::move(train)));
  for (const NamedShard& dev : options.dev) {
    DT_ASSIGN_OR_RETURN(ClassificationShard shard, task->OpenAlike(dev.path));
    task->dev_.push_back(std::move(shard));
  }
  task->model().Allocate(options.device, options.compute_type, options.seed);
  DT_RETURN_IF_ERROR(task->Seek({}));
  return task;
}

ClassificationTask::ClassificationTask(const ClassificationTaskOptions& options, Communicator& comm,
                                       ClassificationShard train)
    : ModelTask(options.model, comm),
      options_(options),
      train_(std::move(train)),
      updates_per_epoch_(
          EpochPlan(train_.sample_lengths(), options.batch, /*epoch=*/0).num_batches()) {
  set_accumulation(
      MicroBatchesOf(options.batch, options.micro_batch_tokens, LongestOf(train_), comm.size()));
}

StatusOr<ClassificationShard> ClassificationTask::OpenAlike(const std::string& path) const {
  DT_ASSIGN_OR_RETURN(ClassificationShard shard,
                      ClassificationShard::Open(path, {.vocab_hash = train_.info().vocab_hash}));
  DT_RETURN_IF_ERROR(CheckSameLabels(shard, train_));
  DT_RETURN_IF_ERROR(CheckLongest(shard, options_.model.bert));
  return shard;
}

Status ClassificationTask::Seek(const DataPosition& position) {
  DT_ASSIGN_OR_RETURN(
      ClassificationLoader loader,
      ClassificationLoader::Create(train_, {.batch = options_.batch, .share = share()}, position));
  loader_ = std::move(loader);
  MoveTo(position, train_.size());
  return OkStatus();
}

double ClassificationTask::losses_per_update() const {
  if (options_.batch.samples_per_batch > 0) {
    return static_cast<double>(options_.batch.samples_per_batch);
  }
  return static_cast<double>(train_.size()) / static_cast<double>(updates_per_epoch_);
}

StatusOr<int> ClassificationTask::NextUpdate() {
  ClassificationUpdate update = loader_->Next();
  return Load(std::move(update.micro_batches), update.global_tokens, update.next, train_.size());
}

StatusOr<EvaluationResult> ClassificationTask::Evaluate(Context& ctx) {
  EvaluationResult result;
  for (size_t i = 0; i < dev_.size(); ++i) {
    const ClassificationPredictions predictions =
        PredictShard(model(), dev_[i], options_.eval_batch_tokens, comm(), ctx);
    const std::string& name = options_.dev[i].name;
    const size_t noted = result.notes.size();
    DT_RETURN_IF_ERROR(AddMetrics(dev_[i], predictions, i == 0 ? "" : name + "/", result));
    for (size_t n = noted; n < result.notes.size() && dev_.size() > 1; ++n) {
      result.notes[n].insert(0, name + ":\n");
    }
    if (i > 0) continue;
    result.rows = RowsOf(dev_[i], predictions);
    const std::string only = OnlyPredictedClass(dev_[i], predictions);
    const bool told = std::exchange(collapsed_, !only.empty());
    if (only.empty() || told || !comm().is_root()) continue;
    LogWarning(absl::StrFormat(
        "%s: all %d texts are predicted as \"%s\": the model has not learned to tell the classes "
        "apart; if that stays so, try other trainer.seeds, a lower optimizer.learning_rate, a "
        "higher trainer.warmup_ratio, or more epochs",
        name, dev_[i].size(), only));
  }
  return result;
}

StatusOr<EvaluationResult> ClassificationTask::EvaluateSample(Context& ctx) {
  const std::vector<uint32_t> rows = TrainingSample(train_.size(), dev_.front().size());
  const ClassificationPredictions predictions =
      PredictRows(model(), train_, rows, options_.eval_batch_tokens, comm(), ctx);
  return EvaluationResult{.metrics = {{"loss", MeanLoss(train_, rows, predictions)}}};
}

bool ClassificationTask::SmallerIsBetter(const std::string& metric) const {
  return metric == "loss" || metric == std::string(recorded::kTrainSamplePrefix) + "loss" ||
         std::any_of(options_.dev.begin(), options_.dev.end(),
                     [&](const NamedShard& dev) { return metric == dev.name + "/loss"; });
}

StatusOr<EvaluationResult> ClassificationTask::EvaluateTest(Context& ctx) {
  EvaluationResult result;
  if (options_.test.empty()) return result;
  DT_ASSIGN_OR_RETURN(const ClassificationShard test, OpenAlike(options_.test));
  if (CountLabelled(test) == 0) return result;
  DT_RETURN_IF_ERROR(AddMetrics(
      test, PredictShard(model(), test, options_.eval_batch_tokens, comm(), ctx), "", result));
  return result;
}

std::vector<NamedFile> ClassificationTask::CheckpointFiles() const {
  std::vector<NamedFile> files = options_.files;
  std::string labels;
  for (const std::string& name : train_.info().label_names) labels += name + "\n";
  files.push_back({"labels.txt", std::move(labels)});
  return files;
}

std::string ClassificationTask::TrainingData() const {
  return absl::StrFormat("rows %d\ntokens %d\nvocabulary hash %016x\npreparation %016x\n",
                         train_.size(), train_.tokens(), train_.info().vocab_hash,
                         train_.info().key);
}

std::string ClassificationTask::Measured() const {
  std::string text;
  for (size_t i = 0; i < dev_.size(); ++i) {
    const std::string& name = options_.dev[i].name;
    absl::StrAppendFormat(&text, "%s rows %d\n%s preparation %016x\n", name, dev_[i].size(), name,
                          dev_[i].info().key);
  }
  return text;
}

}  // namespace dtrain
