// evaluation.h - measures a translation model on a dev or test set, all ranks sharing the work.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_EVALUATION_H_
#define DTRAIN_TASKS_TRANSLATION_EVALUATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/models/beam_search.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nn/context.h"
#include "dtrain/tasks/translation/token_shard.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"
#include "dtrain/train/task.h"

namespace dtrain {

// A dev or test set in memory: tokens, and the text to compare with.
struct TranslationSet {
  TokenShard shard;
  std::vector<std::string> sources, references;
};

struct TranslationEvaluationOptions {
  BeamSearchOptions search;
  int64_t batch_tokens = 8192;  // evaluated at once, on a rank
  int samples = 5;              // translations that the result shows
};

// Gives loss, nll, ppl, bleu (sacreBLEU), chrf (chrF2) and bleu_tf (teacher-forced, as
// OpenSeq2Seq). The result does not depend on the number of ranks.
class TranslationEvaluator {
 public:
  // All references must outlive the evaluator.
  TranslationEvaluator(Seq2SeqTransformer& model, const TranslationTokenizer& tokenizer,
                       Communicator& comm, const TranslationEvaluationOptions& options)
      : model_(model), tokenizer_(tokenizer), comm_(comm), options_(options) {}

  // Measures `max_sentences` pairs of a set, every k-th; 0 for all. The result has values per row:
  // nll, and the counts of BLEU and chrF. All ranks call it. The context must not be training.
  StatusOr<EvaluationResult> Evaluate(const TranslationSet& set, int64_t max_sentences,
                                      Context& ctx);
  // The loss and the nll of these pairs of a shard alone. All ranks call it, as above.
  EvaluationResult EvaluateLoss(const TokenShard& shard, const std::vector<uint32_t>& rows,
                                Context& ctx);

 private:
  // Places in `rows` of this rank's sentences, dealt in turn by falling length: beam search takes
  // most of an evaluation, and whole batches of it would leave ranks idle.
  std::vector<uint32_t> OwnPlaces(const std::vector<uint32_t>& rows,
                                  const TranslationSet& set) const;
  Status EvaluateTranslations(const TranslationSet& set, const std::vector<uint32_t>& rows,
                              Context& ctx, EvaluationResult& result);
  // Adds the scores of the hypotheses of this rank's places, and their counts by row.
  Status AddScores(const std::vector<uint32_t>& own, const std::vector<std::string>& hypotheses,
                   const std::vector<std::string>& references, EvaluationResult& result);
  // Adds typical sentences among the rows, with their translations.
  void GatherSamples(const TranslationSet& set, const std::vector<uint32_t>& rows,
                     const std::vector<uint32_t>& own, const std::vector<std::string>& hypotheses,
                     EvaluationResult& result);

  Seq2SeqTransformer& model_;
  const TranslationTokenizer& tokenizer_;
  Communicator& comm_;
  TranslationEvaluationOptions options_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_EVALUATION_H_
