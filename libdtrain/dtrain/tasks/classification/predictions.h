// predictions.h - what a model says about every row of a shard, and its file.
// SPDX-License-Identifier: Apache-2.0
//
//   const ClassificationPredictions predictions =
//       PredictShard(model, shard, /*batch_tokens=*/8192, comm, ctx);
//   DT_RETURN_IF_ERROR(WritePredictions("predictions.tsv", shard, predictions));
#ifndef DTRAIN_TASKS_CLASSIFICATION_PREDICTIONS_H_
#define DTRAIN_TASKS_CLASSIFICATION_PREDICTIONS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/tasks/classification/classification_model.h"
#include "dtrain/tasks/classification/classification_shard.h"
#include "dtrain/tasks/classification/head.h"
#include "dtrain/train/task.h"

namespace dtrain {

// Loss and head that fit the labels of a shard.
ClassificationLossKind LossOf(LabelKind kind);
int64_t OutputsOf(const ClassificationShardInfo& info);

// Rows that have all their labels: others count in no metric.
int64_t CountLabelled(const ClassificationShard& shard);
// Number of rows with each of info().label_names: of its class, or with a label of at least 0.5.
std::vector<int64_t> CountLabels(const ClassificationShard& shard);

// Every row by one of the ranks, in batches that are the same for any number of ranks; all ranks
// get all rows. Collective; the context is not training.
ClassificationPredictions PredictShard(BertClassifier& model, const ClassificationShard& shard,
                                       int64_t batch_tokens, Communicator& comm, Context& ctx);
// The same of these rows alone, in their order.
ClassificationPredictions PredictRows(BertClassifier& model, const ClassificationShard& shard,
                                      const std::vector<uint32_t>& rows, int64_t batch_tokens,
                                      Communicator& comm, Context& ctx);

// Values of each row with a label: its loss, whether its class is right, labels and predictions.
RowValues RowsOf(const ClassificationShard& shard, const ClassificationPredictions& predictions);
// The mean loss of rows of a shard that have a label; NaN if none has.
double MeanLoss(const ClassificationShard& shard, const std::vector<uint32_t>& rows,
                const ClassificationPredictions& predictions);

// The names of the metrics that AddMetrics() adds for a shard: "loss", then the default metric of
// such data, then others.
std::vector<std::string> MetricNames(const ClassificationShardInfo& info);

// The loss and the metrics of the shard's kind of labels, over its rows with a label; nothing where
// no row has one. `prefix` stands before the metrics' names.
//   kClass       accuracy, matthews; of two classes f1 and auc of the second, else macro_f1
//   kValue       pearson, spearman
//   kMultiLabel  auc, the mean over the labels, and each label's; with groups jigsaw
Status AddMetrics(const ClassificationShard& shard, const ClassificationPredictions& predictions,
                  const std::string& prefix, EvaluationResult& result);

// The class that all rows are predicted as, though their labels are not all it; else "". Of several
// labels what is predicted of all rows, separated by commas, or "none of the labels", though one of
// them, the first where there are groups, is some rows' and not others'.
std::string OnlyPredictedClass(const ClassificationShard& shard,
                               const ClassificationPredictions& predictions);

// A text of a row, and its partner, as columns behind those of a prediction, and their header.
std::string TextColumns(std::string_view text, const std::optional<std::string_view>& pair);
std::string TextColumnsHeader(bool has_pairs);

// The first line of a file of predictions, and the line of row i, both without a line end.
std::string PredictionsHeader(const ClassificationShardInfo& info);
std::string PredictionsLine(const ClassificationShardInfo& info,
                            const ClassificationPredictions& predictions, int64_t i,
                            std::string_view id);

// A tab-separated file: a header, then for each row its id (its name in the file it came from, or
// its number there from 1), what is predicted, and the probability of every class or label. Of
// kValue: id and prediction. Of kMultiLabel the prediction lists the labels above one half,
// separated by commas. `texts`, unless empty, has the text columns of the header and of each row.
// StorageError when it cannot be written.
Status WritePredictions(const std::string& path, const ClassificationShard& shard,
                        const ClassificationPredictions& predictions,
                        std::span<const std::string> texts = {});

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_PREDICTIONS_H_
