// trainer.h - the training loop: updates, evaluation, checkpoints, stopping and resuming.
// SPDX-License-Identifier: Apache-2.0
//
//   Trainer trainer(task, communicator, context, options);
//   DT_RETURN_IF_ERROR(trainer.Resume("auto"));
//   DT_ASSIGN_OR_RETURN(const TrainResult result, trainer.Run());
//
// All ranks run the same loop. Whatever could differ between them (clocks, signals) is decided on
// reduced values, so that every rank takes the same branch at the same update.
//
// On a GPU the host runs ahead: whether an update was skipped, its loss and its norm arrive two
// updates later (train/step_ring.h), and are written then as belonging to it. Before an evaluation,
// a checkpoint and the end the host waits for all of them.
#ifndef DTRAIN_TRAIN_TRAINER_H_
#define DTRAIN_TRAIN_TRAINER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dtrain/base/period.h"
#include "dtrain/base/status.h"
#include "dtrain/base/stop_flags.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/comm/self_communicator.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/optimizer_shards.h"
#include "dtrain/nn/context.h"
#include "dtrain/optim/adam.h"
#include "dtrain/optim/loss_scaler.h"
#include "dtrain/optim/lr_schedule.h"
#include "dtrain/optim/step_state.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/train/step_graphs.h"
#include "dtrain/train/step_ring.h"
#include "dtrain/train/step_timeline.h"
#include "dtrain/train/task.h"
#include "dtrain/train/train_state.h"

namespace dtrain {

namespace internal {
class LocalUpdates;
}

struct EarlyStopOptions {
  std::string metric = {};  // "": TrainerOptions::best_metric
  int patience = 0;         // evaluations without improvement; 0 is never
  double min_delta = 0.0;
  int64_t min_steps = 0;
};

struct TrainerOptions {
  int64_t max_steps = 0;     // updates; 0 is no limit
  double max_seconds = 0.0;  // of training, summed over resumes; 0 is no limit
  int64_t max_epochs = 0;    // 0 is no limit; the run ends where the data's position is there
  // Of the first epoch, with today's batches; where these count tokens the others have about as
  // many. 0: not known. Where learning_rate.total_steps is UpdatesOf() the limits, it moves to what
  // TrainingTask::UpdatesUntil() counts, and moves along in a run that goes on with other batches.
  int64_t updates_per_epoch = 0;
  // The learning rate's total_steps and warmup_steps are shares of the epochs: with other batches
  // it goes on from the epochs done. Else they are updates, and each that was made counts as one.
  bool is_rate_of_epochs = false;
  // A skipped update is one of max_steps and takes its place in the course of the rate, else a
  // run's length would hang on its overflows; NVIDIA's recipes do not count it. Adam's bias
  // correction does not either.
  LrScheduleOptions learning_rate = {};
  AdamConfig adam = {};
  double clip_norm = 1.0;  // of the mean gradient; 0 is no limit
  LossScalerOptions loss_scaler = {};
  Period eval_every = {};
  Period checkpoint_every = {};
  // Longest time of training without one, evaluations not counted; 0 is no limit.
  double checkpoint_seconds = 600.0;
  std::string checkpoint_dir = {};  // "" writes none
  int keep_last = 2;
  // A name that the task's evaluations give, of which TrainingTask::SmallerIsBetter() says the
  // direction. "": the first metric that they give; a run that resumes stays with what it chose by.
  std::string best_metric = {};
  EarlyStopOptions early_stop = {};
  int64_t log_every = 10;  // updates; 0 is never
  // Each rank updates a shard of the parameters and keeps its moments alone
  // (distributed/optimizer_shards.h). On CPUs, without trust ratios; checkpoints are the same.
  bool shard_optimizer = false;
  int64_t replica_check_every = 100;  // updates between CheckReplicas(); 0 is never
  GradientReducerOptions reducer = {};
  // Above 1: each rank makes that many updates from its own gradients, then weights and moments
  // become their means over the ranks, weighted by tokens. Evaluations, checkpoints and requested
  // stops wait for such a mean. Not with reducer.power_sgd.
  int64_t sync_every = 1;
  // Updates before that, from the gradients of all ranks (post-local SGD, Lin et al. 2020).
  int64_t sync_every_start = 0;
  CudaGraphs cuda_graphs = CudaGraphs::kAuto;
  StepTimelineOptions timeline = {};
  // What an update's activations are expected to take; after the first updates they are measured
  // and the two reported. 0 reports nothing.
  int64_t planned_activation_bytes = 0;
};

// UsageError where no limit would ever end the run. Early stopping is one with evaluations.
Status CheckEnds(const TrainerOptions& options);

// One logged update; rates and times are means over the updates since the last record.
struct StepRecord {
  int64_t step = 0;       // updates so far
  int64_t max_steps = 0;  // of the run, as far as that is known; 0 is not
  double epoch = 0.0;
  double loss = 0.0;  // per target token, over all ranks
  double nll = 0.0;
  double learning_rate = 0.0;
  double gradient_norm = 0.0;  // of the mean gradient, before clipping
  int64_t skipped = 0;         // updates skipped for infinite or NaN gradients so far
  int64_t target_tokens = 0;   // so far, all ranks
  double step_seconds = 0.0;
  double data_share = 0.0;                // of the step time, on this rank
  double comm_share = 0.0;                // waiting for gradients after backward
  double target_tokens_per_second = 0.0;  // all ranks
  double source_tokens_per_second = 0.0;
  double seconds = 0.0;       // of training so far
  double eta_seconds = -1.0;  // to the end of the run; negative where unknown
};

struct EvaluationRecord {
  int64_t step = 0;
  const EvaluationResult* result = nullptr;
  bool is_best = false;
  // Of a complete run that was started again: told before, with this step's first evaluation.
  bool is_repeated = false;
};

// Receives what happens, on every rank; the root's one writes files and the terminal.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void OnStep(const StepRecord& /*record*/) {}
  virtual void OnEvaluation(const EvaluationRecord& /*record*/) {}
  // kind: "checkpoint", "memory", "resume", "skip", "stop", "best", "timeline", "rounds";
  // text is one sentence.
  virtual void OnEvent(int64_t /*step*/, const std::string& /*kind*/, const std::string& /*text*/) {
  }
  // A checkpoint of the last step told is about to be written, on the root. A run that goes on from
  // it tells nothing of before again: what is buffered must be on disk now.
  virtual void BeforeCheckpoint() {}
};

struct TrainResult {
  TrainState state;
  std::string reason;  // "max_steps", "max_time", "max_epochs", "early stop", "stop requested"
  std::optional<EvaluationResult> last_evaluation;
  std::optional<EvaluationResult> test_evaluation;  // where the task has a test set
};

class Trainer {
 public:
  // All references must outlive the trainer. CheckError where these do not fit each other: the
  // task's parameters are allocated, `ctx` has their compute type and the rank of `comm` (by
  // which dropout of rows without numbers draws), and the learning rate is whole
  // (CheckSchedule()).
  Trainer(TrainingTask& task, Communicator& comm, Context& ctx, const TrainerOptions& options);
  ~Trainer();

  void set_observer(TrainObserver* observer) { observer_ = observer; }
  // Requests from outside, of any rank; must outlive the trainer.
  void set_stop_flags(StopFlags* flags) { stop_flags_ = flags; }

  // Before Run(). "auto": the newest good checkpoint of checkpoint_dir, if there is one. "never":
  // from the start. Else the checkpoint or run directory to go on from; UsageError where it has
  // reached a limit of this run already. Checkpoints in checkpoint_dir behind where it begins are
  // put aside, as .refused-NAME. The root loads, all ranks get it.
  Status Resume(const std::string& from);
  // Trains to the end. UsageError where there is none (CheckEnds()), or where PowerSGD does not
  // know the task's tokens (TrainingTask::global_tokens()); StoppedError after a requested stop,
  // DivergedError when gradients stay infinite.
  StatusOr<TrainResult> Run();

  const TrainState& state() const { return state_; }
  Adam& optimizer() { return adam_; }
  const StepGraphs& graphs() const { return graphs_; }

 private:
  // What the stop flags of any rank ask for.
  struct Requests {
    bool checkpoint = false;
    bool stop = false;
    bool timeline = false;
  };
  // What the host knows of an update when it has issued it.
  struct Update {
    int64_t step = 0;  // updates so far
    LossSums sums;     // tokens over all ranks; losses of this rank, from where tasks add them
    int64_t own_tokens = 0;     // of this rank
    int64_t target_tokens = 0;  // so far
    double epoch = 0.0;
    double learning_rate = 0.0;
    double source_tokens = 0.0;
    double data_seconds = 0.0;
    double comm_seconds = 0.0;
    double elapsed = 0.0;  // the root's training clock, the same on every rank
    Requests requests;
  };
  // What is added up between two records.
  struct Window {
    double loss = 0.0, nll = 0.0;  // of this rank
    int64_t updates = 0, tokens = 0;
    double source_tokens = 0.0, data_seconds = 0.0, comm_seconds = 0.0;
    double start = 0.0;
  };

  StatusOr<Update> RunUpdate();
  void Backward(int micro_batches, Update& update);
  // Loss sums and gradients of one micro-batch; those of the last one go to the reducer.
  LossSums RunMicroBatch(int i, bool is_last);
  void ReduceSums(Update& update);
  // Where it is due.
  Status CheckReplicasNow();
  // Of the activations so far, once.
  void ReportMemory();
  // Tells heartbeats what this rank does, and the timeline until the span ends.
  [[nodiscard]] Timeline::Span Enter(Phase phase, int64_t index = -1);
  void StartTimeline();
  // On, or off, where a rank asked for it.
  void ToggleTimeline(const Requests& requests);
  void ApplyGradients(Update& update);
  // Exchanges weights and average, of all shards.
  void SwapAverage();
  // Reads what the device decided about the updates that are due, or about all of them.
  // DivergedError where too many in a row were skipped.
  Status Collect(bool all);
  Status Learn(const Update& update, const StepState& decided);
  // DivergedError after too many updates skipped in a row; of the last one.
  Status CheckDiverged(int64_t step, double learning_rate) const;
  void Record(const Update& update, const StepState& decided);
  // Whether the ranks' weights differ for now (trainer_exchange.cc).
  bool IsInRound() const;
  // For the exchange with those ranks, with the loop's stream, scale and timeline.
  std::unique_ptr<GradientReducer> MakeReducer(Communicator& comm);
  // How many tokens the loaded update has. UsageError where PowerSGD has to know and the task does
  // not say.
  Status TellReducer();
  // Of what spares the network only behind the end of the run.
  void WarnOfLateStarts() const;
  // Whether ranks make the update that follows `step` alone.
  bool AreRoundsDue(int64_t step) const;
  Status BeginRounds();
  // Makes them equal, where they differ.
  Status EndRound();
  // Those that came up to now, where they need not wait for the end of a round.
  Requests TakeRequests(const Requests& requests);
  PeriodClock Clock() const;
  // The evaluation that is due, and the checkpoint that is since `before` or was asked for.
  Status DoPeriodic(const PeriodClock& before, const Requests& requests);
  Status Evaluate(bool is_last);
  StatusOr<EvaluationResult> EvaluateTest();
  // The metrics that options_ leave to the task.
  void ChooseMetrics(const EvaluationResult& result);
  // Which way they look.
  void TellDirections();
  // Once: of the metrics that steer the run but that the task does not give.
  void WarnIfMissing(const EvaluationResult& result);
  // Where they begin to be none.
  void WarnIfUndefined(const EvaluationResult& result);
  Status SaveCheckpoint();
  // On the root alone.
  Status WriteCheckpoint(std::vector<CheckpointFile> more);
  // The root does it; it may ask the other ranks for their shards meanwhile, or give them theirs.
  Status OnRoot(const std::function<Status()>& work);
  Status Finish(const std::string& reason);
  // Whether it may be the weights that give no finite gradients, and not the loss scale.
  bool IsDoubtful() const;
  bool IsEvaluationFinite() const;  // whether the last one shows that the weights are good
  std::string GoesOnBy() const;
  Status StopUnsaved();
  Status EndsBroken(const std::string& reason);
  // Why the run ends here, or "".
  std::string EndReason(const Requests& requests) const;
  // Where the epoch that has begun has another order than today's.
  void TellOrder();
  // planned_end_ and the end of the learning rate, where the epochs that are left end elsewhere.
  void PlanEnd();
  // Where the task does not count the updates of the epochs left.
  int64_t EstimatedEnd() const;
  // UsageError where a checkpoint of another run leaves nothing to train.
  Status CheckLimits(const std::string& checkpoint) const;
  double BudgetUsed() const;
  // The learning rate of 0-based update `step` of this run.
  double RateOf(int64_t step) const {
    return LearningRate(options_.learning_rate, step - rate_shift_, BudgetUsed());
  }
  double Elapsed() const { return resumed_seconds_ + clock_.Seconds(); }
  double EtaSeconds(const Update& update, double step_seconds) const;
  StatusOr<std::string> Load(const std::string& from);
  // A checkpoint of other data is refused where it is this run's own, else its position is given
  // up.
  Status AdoptTrainingData(const Checkpoint& checkpoint, bool is_own);
  // A run without a choice of its own goes on with what it began with; what was the best by another
  // metric than today's, or in another run, is no longer.
  void AdoptMetrics(bool is_own);
  // Nor is what another dev set says, or the same one measured otherwise.
  void AdoptEvaluation();
  Status RestoreBestLink();
  void ForgetBest();
  void ForgetEarlyStop();
  // What the reducer remembers of earlier steps, from the checkpoint that the root loaded.
  Status RestorePowerSgd(const std::string& path);
  Status BroadcastState(const Status& loaded);
  void Event(const std::string& kind, const std::string& text) { Event(state_.step, kind, text); }
  void Event(int64_t step, const std::string& kind, const std::string& text);

  TrainingTask& task_;
  Communicator& comm_;
  Context& ctx_;
  TrainerOptions options_;
  StepTimeline timeline_;
  SelfCommunicator alone_;  // of reducer_ where there is rounds_
  DeviceStep step_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<OptimizerShards> shards_;  // null: every rank updates all parameters
  Adam adam_;
  std::unique_ptr<internal::LocalUpdates> rounds_;  // none while gradients are summed over ranks
  StepRing ring_;
  StepGraphs graphs_;
  std::deque<Update> issued_;  // those whose decisions are in the ring
  TrainObserver* observer_ = nullptr;
  StopFlags* stop_flags_ = nullptr;

  int64_t planned_end_ = 0;  // updates of the run by its limits, about; 0: not known
  int64_t rate_shift_ = 0;  // updates made beyond those that today's batches need for the same data
  TrainState state_;        // skipped, optimizer_steps and loss_scaler: as far as the ring was read
  Timer clock_;
  double resumed_seconds_ = 0.0;
  double elapsed_ = 0.0;
  double last_checkpoint_ = 0.0;
  Requests heard_;     // before the last update
  Requests requests_;  // that wait for the end of a round
  double last_request_ = -std::numeric_limits<double>::infinity();
  double last_toggle_ = -std::numeric_limits<double>::infinity();
  int64_t last_evaluation_step_ = -1;
  bool told_missing_ = false;
  std::set<std::string> undefined_;  // of the metrics that steer the run, at the last evaluation
  int64_t last_checkpoint_step_ = -1;
  std::string resumed_from_ = "auto";  // what Resume() was given
  int64_t restored_optimizer_steps_ = 0;
  bool checkpoint_due_ = false;  // but put off while updates are skipped
  int skipped_in_a_row_ = 0;
  int64_t updates_here_ = 0;  // since this process began
  int64_t activation_peak_ = 0;
  std::optional<EvaluationResult> last_evaluation_;

  Window window_;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_TRAINER_H_
