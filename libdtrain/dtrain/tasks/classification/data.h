// data.h - from the data section of a ClassificationConfig to shards on disk.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_DATA_H_
#define DTRAIN_TASKS_CLASSIFICATION_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/base/utf8.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/tasks/classification/task.h"

namespace dtrain::proto {
class ClassificationDataConfig;
}  // namespace dtrain::proto

namespace dtrain {

struct ClassifierDataOptions {
  std::string cache_dir;   // where shards are kept
  bool with_train = true;  // false: only what there is to evaluate and predict
  bool with_dev = true;    // false: no dev set where there is a test set
  // The classes of a trained model, in the order of its outputs.
  std::vector<std::string> label_names = {};
  bool with_labels = true;  // false: the texts have none
  InvalidText invalid = InvalidText::kFail;
};

struct ClassifierData {
  std::string train;
  std::vector<NamedShard> dev;
  std::vector<NamedShard> test;
  // The metric that the task is judged by, or "" where the data does not say.
  std::string main_metric;
};

// The files of texts that a data section names, train, dev and test, and the vocabulary; of a GLUE
// task those of its training data and splits, which need not be there.
std::vector<std::string> TextFilesOf(const proto::ClassificationDataConfig& config);

// Tokenises, on the root rank, what is not in the cache yet; all ranks return the paths or the same
// error. UsageError, DataError: tasks/classification/prepare.h.
StatusOr<ClassifierData> PrepareClassifierData(const proto::ClassificationDataConfig& config,
                                               const ClassifierDataOptions& options,
                                               Runtime& runtime);

// The texts of the rows that PrepareClassifierData() took from the files of the set `name`, as the
// columns of WritePredictions(). Call it on one rank. DataError: the files have changed, so that
// they do not have `rows` rows.
StatusOr<std::vector<std::string>> ReadTextColumns(const proto::ClassificationDataConfig& config,
                                                   const ClassifierDataOptions& options,
                                                   const std::string& name, int64_t rows);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_DATA_H_
