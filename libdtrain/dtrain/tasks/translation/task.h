// task.h - translation as a training task: prepared text, a Transformer, BLEU.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_TASK_H_
#define DTRAIN_TASKS_TRANSLATION_TASK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/models/beam_search.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/tasks/shared/model_task.h"
#include "dtrain/tasks/translation/evaluation.h"
#include "dtrain/tasks/translation/loader.h"
#include "dtrain/tasks/translation/token_shard.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"

namespace dtrain {

struct TranslationTaskOptions {
  std::string data_dir;  // written by PrepareParallelCorpus (tasks/translation/prepare.h)
  Seq2SeqOptions model;  // vocab_size comes from the data
  BatchOptions batch;    // tokens_per_batch: of an update over all ranks
  int64_t micro_batch_tokens = 4096;  // a rank's share is cut into micro-batches of at most this
  Device device;                      // where the model lives
  DType compute_type = DType::kFloat32;
  uint64_t seed = 1;
  BeamSearchOptions search;          // in evaluations
  int64_t eval_batch_tokens = 4096;  // per rank
  int64_t eval_max_sentences = 0;    // every k-th; 0: all
  int eval_samples = 5;
  std::string config_text;                 // travels in checkpoints as config.textproto
  std::vector<NamedFile> kept_files = {};  // travel in checkpoints, too
};

class TranslationTask final
    : public ModelTask<Seq2SeqTransformer, TranslationBatch, TranslationInputs> {
 public:
  // Opens the data and initialises the model. The communicator outlives the task. DataError: a file
  // is missing, damaged, of another vocabulary, or has fewer pairs than there are ranks.
  static StatusOr<std::unique_ptr<TranslationTask>> Create(const TranslationTaskOptions& options,
                                                           Communicator& comm);

  Status Seek(const DataPosition& position) override;
  EpochInfo epoch() const override {
    return EpochOf(epoch_samples(), options_.batch, [this] { return TrainLengths(); });
  }
  StatusOr<int> NextUpdate() override;
  double losses_per_update() const override {  // target tokens
    return static_cast<double>(options_.batch.tokens_per_batch);
  }
  std::string GraphKey() const override;
  Evaluation evaluation() override;
  Identity identity() const override;
  CheckpointContents checkpoint() const override {
    return {.files = CheckpointFiles(),
            .check = [this](const Checkpoint& checkpoint) { return CheckCheckpoint(checkpoint); }};
  }

  // loss, nll, ppl, bleu (sacreBLEU), chrf (chrF2), bleu_tf (teacher-forced, as OpenSeq2Seq), on
  // the dev set; none without one.
  StatusOr<EvaluationResult> Evaluate(Context& ctx);
  StatusOr<EvaluationResult> EvaluateTest(Context& ctx);
  std::vector<NamedFile> CheckpointFiles() const;

  const TranslationTokenizer& tokenizer() const { return tokenizer_; }
  const TokenShard& train_shard() const { return train_; }
  bool has_dev() const { return dev_ && dev_->shard.size() > 0; }
  // Updates of the first pass over the training data; later ones, in other orders, have about as
  // many.
  int64_t updates_per_epoch() const;

 private:
  TranslationTask(const TranslationTaskOptions& options, Communicator& comm,
                  TranslationTokenizer tokenizer, TokenShard train);
  Status CheckCheckpoint(const Checkpoint& checkpoint) const;
  StatusOr<TranslationSet> OpenSet(const std::string& name) const;
  TranslationEvaluator Evaluator();
  SampleLengths TrainLengths() const { return LengthsOf(train_); }

  TranslationTaskOptions options_;
  TranslationTokenizer tokenizer_;  // with its files: the folder may be prepared anew meanwhile
  TokenShard train_;
  std::optional<TranslationSet> dev_;
  std::string test_;  // pairs and checksum of the test set; empty: there is none
  std::optional<BatchLoader> loader_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_TASK_H_
