// glue.h - the nine GLUE tasks: their files, columns, labels and metrics.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const GlueTask task, FindGlueTask("mrpc"));
//   const GlueSplit dev = *GlueSplitOf(task, "dev", "glue_data/MRPC");
//   ExampleReader::Open(dev.path, dev.schema);
//
// Wang et al., "GLUE: A Multi-Task Benchmark and Analysis Platform" (ICLR 2019). Files are the
// original ones: tab-separated, with quotes as text. Columns and the order of labels follow
// google-research/bert's run_classifier.py and Hugging Face's GLUE processors.
#ifndef DTRAIN_TASKS_CLASSIFICATION_GLUE_H_
#define DTRAIN_TASKS_CLASSIFICATION_GLUE_H_

#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/classification/example_reader.h"

namespace dtrain {

struct GlueTask {
  std::string name;    // for example "sst-2", "mrpc"
  std::string folder;  // the name in the download, for example "SST-2", "MRPC"
  LabelKind label_kind = LabelKind::kClass;
  std::vector<std::string> label_names;  // names of the classes in the order of their numbers
  // The task's metrics; the first one selects the best model: "accuracy", "f1", "matthews",
  // "pearson", "spearman".
  std::vector<std::string> metrics;
  // The splits other than "train"; the first one is evaluated while training.
  std::vector<std::string> splits;
};

// Ignores case, "-" and "_". "mnli-mm" is MNLI with the mismatched sets first. Returns UsageError,
// which lists the tasks, for an unknown name.
StatusOr<GlueTask> FindGlueTask(std::string_view name);

struct GlueSplit {
  std::string path;
  ExampleSchema schema;
};

// `split` is "train", "dev", "test" or, for MNLI, also "dev_matched", "dev_mismatched" and so on
// ("dev" is the first of these). Test sets have no labels. QQP's train and dev sets skip rows that
// lack fields, MNLI's skip rows without a gold label ("-"). Returns UsageError for an unknown
// split.
StatusOr<GlueSplit> GlueSplitOf(const GlueTask& task, std::string_view split,
                                const std::string& data_dir);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_GLUE_H_
