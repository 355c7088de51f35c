// classification_task.cc - feeds the model from shards; evaluations are shared among the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/classification_task.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/log.h"
#include "dtrain/train/micro_batches.h"

namespace dtrain {
namespace {

int32_t LongestOf(const ClassificationShard& shard) {
  const std::span<const int32_t> lengths = shard.lengths();
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

absl::Status CheckLongest(const ClassificationShard& shard, const BertOptions& model) {
  if (LongestOf(shard) <= model.max_positions) return absl::OkStatus();
  return UsageError(absl::StrFormat(
      "%s holds a text of %d tokens, but the model has %d positions; prepare the data with "
      "data.max_length=%d",
      shard.path(), LongestOf(shard), model.max_positions, model.max_positions));
}

absl::StatusOr<BertClassifierOptions> FitModel(BertClassifierOptions model,
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

absl::Status CheckSameLabels(const ClassificationShard& shard, const ClassificationShard& train) {
  const ClassificationShardInfo& ours = shard.info();
  const ClassificationShardInfo& theirs = train.info();
  if (ours.label_kind == theirs.label_kind && ours.label_names == theirs.label_names &&
      ours.labels_per_row == theirs.labels_per_row) {
    return absl::OkStatus();
  }
  return DataError(absl::StrFormat("%s has labels (%s), %s has (%s); prepare them together",
                                   shard.path(), absl::StrJoin(ours.label_names, ", "),
                                   train.path(), absl::StrJoin(theirs.label_names, ", ")));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClassificationTask>> ClassificationTask::Create(
    const ClassificationTaskOptions& options, Communicator& comm) {
  if (options.compute_type == DType::kFloat16 && options.device.type == DeviceType::kCpu) {
    return UsageError(
        "trainer.precision=fp16 needs a GPU; on CPUs use bf16 (where the processor has it) or "
        "fp32");
  }
  DT_ASSIGN_OR_RETURN(ClassificationShard train, ClassificationShard::Open(options.train));
  ClassificationTaskOptions fitted = options;
  DT_ASSIGN_OR_RETURN(fitted.model, FitModel(options.model, train));
  std::unique_ptr<ClassificationTask> task(new ClassificationTask(fitted, comm, std::move(train)));
  for (const NamedShard& dev : options.dev) {
    DT_ASSIGN_OR_RETURN(ClassificationShard shard, task->OpenAlike(dev.path));
    task->dev_.push_back(std::move(shard));
  }
  task->model_->Allocate(options.device, options.compute_type, options.seed);
  DT_ASSIGN_OR_RETURN(ClassificationLoader loader,
                      ClassificationLoader::Create(task->train_, task->LoaderOptions()));
  task->loader_ = std::move(loader);
  return task;
}

ClassificationTask::ClassificationTask(const ClassificationTaskOptions& options, Communicator& comm,
                                       ClassificationShard train)
    : options_(options),
      comm_(comm),
      train_(std::move(train)),
      model_(std::make_unique<BertClassifier>(options.model)),
      accumulation_(MicroBatchesOf(options.batch, options.micro_batch_tokens, LongestOf(train_),
                                   comm.size())),
      updates_per_epoch_(
          EpochPlan(train_.sample_lengths(), options.batch, /*epoch=*/0).num_batches()) {}

absl::StatusOr<ClassificationShard> ClassificationTask::OpenAlike(const std::string& path) const {
  DT_ASSIGN_OR_RETURN(ClassificationShard shard,
                      ClassificationShard::Open(path, {.vocab_hash = train_.info().vocab_hash}));
  DT_RETURN_IF_ERROR(CheckSameLabels(shard, train_));
  DT_RETURN_IF_ERROR(CheckLongest(shard, options_.model.bert));
  return shard;
}

ClassificationLoaderOptions ClassificationTask::LoaderOptions() const {
  return {
      .batch = options_.batch,
      .share = {.rank = comm_.rank(), .num_ranks = comm_.size(), .accumulation = accumulation_}};
}

absl::Status ClassificationTask::Seek(const DataPosition& position) {
  DT_ASSIGN_OR_RETURN(
      ClassificationLoader loader,
      ClassificationLoader::Create(train_, LoaderOptions(),
                                   {.epoch = position.epoch, .sample = position.sample}));
  position_ = position;
  loader_ = std::move(loader);
  return absl::OkStatus();
}

double ClassificationTask::epochs() const {
  return static_cast<double>(position_.epoch) +
         static_cast<double>(position_.sample) / static_cast<double>(train_.size());
}

absl::StatusOr<int> ClassificationTask::NextUpdate() {
  inputs_ = {};
  update_ = loader_->Next();
  position_ = {update_.next.epoch, update_.next.sample};
  tokens_ = 0;
  for (const ClassificationBatch& micro : update_.micro_batches) {
    tokens_ += micro.sequences.tokens();
  }
  return static_cast<int>(update_.micro_batches.size());
}

void ClassificationTask::Upload(int i, Context& ctx) {
  inputs_ = {};
  inputs_ = model_->Upload(update_.micro_batches.at(static_cast<size_t>(i)), ctx);
}

std::string ClassificationTask::GraphKey() const {
  const Sequences& sequences = inputs_.text.sequences;
  if (sequences.count() == 0) return "";
  return absl::StrJoin({sequences.count(), sequences.tokens(), int64_t{sequences.max_length()}},
                       ",");
}

LossSums ClassificationTask::Forward(int /*i*/, float loss_scale, Context& ctx) {
  return model_->Forward(inputs_, loss_scale, ctx);
}

void ClassificationTask::Backward(Context& ctx) { model_->Backward(ctx); }

absl::StatusOr<EvaluationResult> ClassificationTask::Evaluate(Context& ctx) {
  EvaluationResult result;
  for (size_t i = 0; i < dev_.size(); ++i) {
    const ClassificationPredictions predictions =
        PredictShard(*model_, dev_[i], options_.eval_batch_tokens, comm_, ctx);
    const std::string& name = options_.dev[i].name;
    DT_RETURN_IF_ERROR(AddMetrics(dev_[i], predictions, i == 0 ? "" : name + "/", result));
    if (i > 0) continue;
    const std::string only = OnlyPredictedClass(dev_[i], predictions);
    const bool told = std::exchange(collapsed_, !only.empty());
    if (only.empty() || told || !comm_.is_root()) continue;
    LogWarning(absl::StrFormat(
        "%s: all %d texts are predicted as \"%s\": the model has not learned to tell the classes "
        "apart; if that stays so, try other trainer.seeds, a lower optimizer.learning_rate, a "
        "higher trainer.warmup_ratio, or more epochs",
        name, dev_[i].size(), only));
  }
  return result;
}

absl::StatusOr<EvaluationResult> ClassificationTask::EvaluateTest(Context& ctx) {
  EvaluationResult result;
  if (options_.test.empty()) return result;
  DT_ASSIGN_OR_RETURN(const ClassificationShard test, OpenAlike(options_.test));
  if (CountLabelled(test) == 0) return result;
  DT_RETURN_IF_ERROR(AddMetrics(
      test, PredictShard(*model_, test, options_.eval_batch_tokens, comm_, ctx), "", result));
  return result;
}

absl::Status ClassificationTask::CheckCheckpoint(const Checkpoint& checkpoint) const {
  for (const NamedFile& file : CheckpointFiles()) {
    const bool is_contract = file.name == "vocab.txt" || file.name == "labels.txt";
    if (!is_contract || !checkpoint.Has(file.name)) continue;
    DT_ASSIGN_OR_RETURN(const std::string theirs, checkpoint.ReadText(file.name));
    if (theirs == file.contents) continue;
    return StorageError(absl::StrFormat(
        "%s was trained with another %s than this run's data has; start a new run in another "
        "--run_dir",
        checkpoint.path(), file.name));
  }
  return absl::OkStatus();
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

std::string ClassificationTask::ModelText() const {
  const BertOptions& model = options_.model.bert;
  return absl::StrFormat("num_heads %d\nactivation %s\nlayer_norm_epsilon %g\n", model.num_heads,
                         ToAbsl(Name(model.activation)), model.layer_norm_epsilon);
}

std::string ClassificationTask::DataContract() const {
  std::string text = TrainingData();
  for (size_t i = 0; i < dev_.size(); ++i) {
    absl::StrAppendFormat(&text, "%s rows %d\n", options_.dev[i].name, dev_[i].size());
  }
  return text;
}

}  // namespace dtrain
