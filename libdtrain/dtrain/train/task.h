// task.h - what a trainer trains: a model together with its data and its evaluation.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_TASK_H_
#define DTRAIN_TRAIN_TASK_H_

#include <cstdint>
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

// Micro-batches that an update has on a rank at most.
inline constexpr int64_t kMaxMicroBatches = Context::kMostParts;

struct EvaluationResult {
  // Names ("loss", "nll", "ppl", "bleu", "chrf") and values, in the order they are printed.
  std::vector<std::pair<std::string, double>> metrics;
  std::vector<EvaluationSample> samples;
  std::vector<std::string> notes;  // signatures of the metrics
  double seconds = 0.0;

  // The metric's value, or NaN where there is none of that name.
  double Metric(const std::string& name) const;
  bool Has(const std::string& name) const;
};

// A file that travels inside a checkpoint (tokenizer, configuration).
struct NamedFile {
  std::string name, contents;
};

// What a metric's name says of its direction. A smaller value is better where a word of the name
// (between "_", "-", "." or blanks, in any case, behind the last "/") is loss, nll, ppl,
// perplexity, entropy, bits, err, error, errors, wer, cer, ter, mse, rmse or mae: "eval_loss",
// "error_rate", "bits_per_byte". Else a larger one is.
bool SmallerIsBetter(const std::string& metric);

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  virtual ParameterSet& parameters() = 0;

  // The data. An update is one global batch, of which this rank holds `micro_batches` parts.
  // StorageError when the data has no such position.
  virtual Status Seek(const DataPosition& position) = 0;
  virtual DataPosition position() const = 0;  // of the next update
  // In which order epochs begin here, where that is known. One that has begun in another goes on in
  // that: Seek() takes it with the position.
  virtual std::optional<SampleOrder> sample_order() const { return std::nullopt; }
  virtual double epochs() const = 0;  // position as a number: 1.5 is half through the second
  // Updates from there to the end of so many epochs; nullopt where that is not known, or where it
  // would take long to count them.
  virtual std::optional<int64_t> UpdatesUntil(const DataPosition& /*from*/,
                                              int64_t /*epochs*/) const {
    return std::nullopt;
  }
  // Loads the next update's micro-batches; their number may differ between ranks and is at least 1
  // and at most kMaxMicroBatches. A rank for which there is nothing gives 1, with an empty batch:
  // it takes part in the exchange of gradients, its own being zero. Rows that have the numbers of
  // the whole update (Sequences::first_numbers()) let all ranks drop what one process would.
  virtual StatusOr<int> NextUpdate() = 0;
  // Source tokens of the loaded update on this rank, for the speed shown.
  virtual int64_t source_tokens() const = 0;
  // Tokens, or texts, whose losses all ranks sum in the loaded update: what LossSums::tokens of
  // them all will be. 0: not known, which will do but for PowerSGD.
  virtual int64_t global_tokens() const { return 0; }

  // Losses that an update sums over all ranks, about: as LossSums::tokens counts them. 0: not
  // known. Where losses are scaled, the first scale is a good one for gradients of their mean.
  virtual double losses_per_update() const { return 0.0; }

  // Puts micro-batch i into the device's memory, before its Forward, and lets go of the one before.
  virtual void Upload(int /*i*/, Context& /*ctx*/) {}
  // Everything that the kernels of the uploaded micro-batch depend on but what Upload() put into
  // memory: shapes, mostly. Where two micro-batches have one key, a GPU may repeat the recorded
  // launches of the one for the other, without calls of Forward and Backward. So with a key these
  // neither copy from or to the host nor wait, and Forward returns the same LossSums. "": never.
  virtual std::string GraphKey() const { return ""; }
  // Loss sums of micro-batch i, then its gradients (accumulated), multiplied by ctx.loss().scale,
  // which lies on the device. Sums that the device adds to ctx.loss() are not among those returned
  // (OutputLoss does so): the host reads them later and waits for nothing.
  virtual LossSums Forward(int i, Context& ctx) = 0;
  virtual void Backward(Context& ctx) = 0;

  // Evaluates on the dev set. Collective: all ranks call it and get the same metrics.
  virtual StatusOr<EvaluationResult> Evaluate(Context& ctx) = 0;
  // Of a metric of Evaluate(): which way the best checkpoint and early stopping look. Override it
  // where a name says it wrongly, or none says it.
  virtual bool SmallerIsBetter(const std::string& metric) const {
    return dtrain::SmallerIsBetter(metric);
  }
  // Evaluates on the test set, at the end of a run; without metrics where there is none.
  // Collective.
  virtual StatusOr<EvaluationResult> EvaluateTest(Context& /*ctx*/) { return EvaluationResult(); }
  // Canonical text, a line each, of what a position in the data belongs to: a run goes on with the
  // data it began with. "" is not compared.
  virtual std::string TrainingData() const { return ""; }
  // The same of all data that ranks must have alike, compared before they train
  // (launch/run_training.h).
  virtual std::string DataContract() const { return TrainingData(); }
  // Canonical text, a line each, of what Evaluate() measures: the dev set, and what else decides
  // its metrics. Where it differs, figures of before are not compared with. "" is not compared.
  virtual std::string EvaluationContract() const { return ""; }
  // Canonical text, a line each, of what the model is beside its tensors' shapes (heads,
  // activation): weights mean something with the same alone. "" is not compared.
  virtual std::string ModelText() const { return ""; }
  // Whether a checkpoint's model fits this task (the same vocabulary, say); StorageError says why
  // not.
  virtual Status CheckCheckpoint(const Checkpoint& checkpoint) const = 0;
  // Files every checkpoint carries beside the trainer's own: model.safetensors,
  // optimizer.safetensors, power_sgd.safetensors, state.json, model.txt and training_data.txt.
  virtual std::vector<NamedFile> CheckpointFiles() const = 0;
};

// CheckError where the task's parameters are not allocated yet, or for another compute type than
// that of the context they are trained with.
void CheckComputeType(TrainingTask& task, DType compute_type);

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_TASK_H_
