// task.h - what a trainer trains: a model together with its data.
// SPDX-License-Identifier: Apache-2.0
//
//   class MyTask final : public TrainingTask {
//    public:
//     ParameterSet& parameters() override { return model_.parameters(); }
//     Status Seek(const DataPosition& position) override;  // to where a checkpoint was written
//     DataPosition position() const override { return position_; }
//     StatusOr<int> NextUpdate() override;  // loads data, returns the number of micro-batches
//     LossSums Forward(int i, Context& ctx) override { return model_.Forward(batches_[i], ctx); }
//     void Backward(Context& ctx) override { model_.Backward(ctx); }
//   };
//
// These six functions suffice. A task that can do more returns it as a part: Evaluation, Identity,
// CheckpointContents, EpochInfo, BatchInfo.
#ifndef DTRAIN_TRAIN_TASK_H_
#define DTRAIN_TRAIN_TASK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/data/data_position.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/loss_sums.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/runs/checkpoint.h"
#include "dtrain/runs/evaluation_sample.h"

namespace dtrain {

// The largest number of micro-batches that an update may have on a rank.
inline constexpr int64_t kMaxMicroBatches = Context::kMostParts;

struct EvaluationResult {
  // Names ("loss", "nll", "ppl", "bleu", "chrf") and values, in the order they are printed.
  std::vector<std::pair<std::string, double>> metrics = {};
  std::vector<EvaluationSample> samples = {};
  std::vector<std::string> notes = {};  // signatures of the metrics
  RowValues rows = {};                  // of the rows that were evaluated; may be empty
  double seconds = 0.0;

  // The value of the metric, or NaN if the result does not have it.
  double Metric(const std::string& name) const;
  bool Has(const std::string& name) const;
};

// A file that travels inside a checkpoint (tokenizer, configuration).
struct NamedFile {
  std::string name, contents;
};

// Guesses a metric's direction from its name. A smaller value is better if a word of the name is
// loss, nll, ppl, perplexity, entropy, bits, err, error, errors, wer, cer, ter, mse, rmse or mae:
// "eval_loss", "error_rate", "bits_per_byte". Words end at "_", "-", "." and blanks, in any case;
// what stands before the last "/" does not count. Otherwise a larger value is better.
bool SmallerIsBetter(const std::string& metric);

// How a task is evaluated. All ranks call the functions and must get the same metrics.
struct Evaluation {
  using Function = std::function<StatusOr<EvaluationResult>(Context&)>;
  Function dev = {};   // while training and at its end; none: no metrics
  Function test = {};  // at the end of the run; none: no test set
  // Losses of a fixed sample of the training data, measured exactly as `dev` measures them, under
  // the same names; other metrics are left out. They are reported as "train_sample_NAME". With them
  // overfitting is measured: the losses of training have dropout and smoothing.
  Function sample = {};
  // The direction in which the best checkpoint and early stopping follow a metric.
  std::function<bool(const std::string& metric)> smaller_is_better = SmallerIsBetter;
};

// Texts that identify a task, one setting per line. A run that resumes compares them with those in
// its checkpoint; an empty text is not compared.
struct Identity {
  // The training data that a DataPosition belongs to. A run continues only with the same data.
  std::string training_data = {};
  // The dev set and whatever else decides the metrics. If it differs, earlier metrics are not
  // compared with new ones.
  std::string evaluation = {};
  // The model besides the shapes of its tensors (heads, activation). Weights keep their meaning
  // only if it is the same.
  std::string model = {};
  // All data that ranks must have alike. They compare it before training (launch/run_training.h).
  // "": training_data.
  std::string shared_data = {};
};

// The contents of a checkpoint besides the trainer's own model.safetensors, optimizer.safetensors,
// power_sgd.safetensors, state.json, model.txt and training_data.txt.
struct CheckpointContents {
  std::vector<NamedFile> files = {};
  // StorageError if a checkpoint does not fit this task (another vocabulary, for instance).
  std::function<Status(const Checkpoint&)> check = {};
};

// Counts the updates from `from` to the end of epoch `epochs`. nullopt if that is unknown or would
// take long to count.
using UpdatesUntil =
    std::function<std::optional<int64_t>(const DataPosition& from, int64_t epochs)>;

// How the data are divided into epochs.
struct EpochInfo {
  int64_t samples = 0;  // in the epoch of position(); 0: unknown
  // The order in which new epochs begin. An epoch that has begun in another order continues in
  // that: Seek() receives it with the position.
  std::optional<SampleOrder> order = {};
  UpdatesUntil updates_until = {};
};

// Numbers of the update that NextUpdate() has loaded. 0: unknown.
struct BatchInfo {
  int64_t source_tokens = 0;  // on this rank, for the speed that is shown
  // The sum of LossSums::tokens over all ranks. PowerSGD requires it.
  int64_t global_tokens = 0;
};

// On an error of the data, functions return DataError or StorageError.
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  // Allocated before a trainer is made.
  virtual ParameterSet& parameters() = 0;
  // Moves to a position in the data; an update is one global batch, of which each rank holds a
  // part. StorageError if the data have no such position.
  virtual Status Seek(const DataPosition& position) = 0;
  virtual DataPosition position() const = 0;  // of the next update
  // Loads the next update and returns the number of its micro-batches on this rank, from 1 to
  // kMaxMicroBatches. Ranks may have different numbers. A rank without data returns 1, with an
  // empty batch: it takes part in the exchange with gradients of zero. If rows have their numbers
  // in the whole update (Sequences::first_numbers()), dropout does not depend on the number of
  // ranks.
  virtual StatusOr<int> NextUpdate() = 0;
  // Computes the losses of micro-batch i, then the gradients of that micro-batch, multiplied by
  // ctx.loss().scale, which lies on the device. Gradients accumulate. Returns the sums, except
  // those that the device adds to ctx.loss(), as OutputLoss does: the host reads them later, so
  // that it need not wait.
  virtual LossSums Forward(int i, Context& ctx) = 0;
  virtual void Backward(Context& ctx) = 0;

  // Optional parts. The functions in them may refer to the task.
  virtual Evaluation evaluation() { return {}; }
  virtual Identity identity() const { return {}; }
  virtual CheckpointContents checkpoint() const { return {}; }
  virtual EpochInfo epoch() const { return {}; }
  virtual BatchInfo batch() const { return {}; }
  // About how many losses all ranks sum in an update; 0: unknown. With loss scaling, the initial
  // scale then suits the gradients of their mean.
  virtual double losses_per_update() const { return 0.0; }

  // For CUDA graphs. Upload() copies micro-batch i into device memory before its Forward() and
  // releases the one before. GraphKey() names all that the kernels of the uploaded micro-batch
  // depend on besides these copies: mostly shapes. A trainer may repeat recorded kernels for
  // another micro-batch with the same key, without calling Forward() and Backward(). With a key
  // these two must therefore neither wait nor copy from or to the host, and must return the same
  // sums. "": never recorded.
  virtual void Upload(int /*i*/, Context& /*ctx*/) {}
  virtual std::string GraphKey() const { return ""; }
};

// The task's position as a number of epochs: 1.5 is halfway through the second one.
double EpochsOf(const TrainingTask& task);

// CheckError if the task's parameters are not allocated, or were allocated for another compute type
// than that of the context they are trained with.
void CheckComputeType(TrainingTask& task, DType compute_type);

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_TASK_H_
