// glue.h - the nine tasks of GLUE: which file, which columns, which labels, which metrics.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const GlueTask task, FindGlueTask("mrpc"));
//   const GlueSplit dev = *GlueSplitOf(task, "dev", "glue_data/MRPC");
//   ExampleReader::Open(dev.path, dev.schema);
//
// Wang et al., "GLUE: A Multi-Task Benchmark and Analysis Platform" (ICLR 2019). Files are the
// original ones: tab-separated, quotes are text. Columns and the order of the labels are those of
// google-research/bert's run_classifier.py and Hugging Face's glue processors.
#ifndef DTRAIN_TASKS_CLASSIFICATION_GLUE_H_
#define DTRAIN_TASKS_CLASSIFICATION_GLUE_H_

#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/classification/example_reader.h"

namespace dtrain {

struct GlueTask {
  std::string name;    // "sst-2", "mrpc" ...
  std::string folder;  // as the download names it: "SST-2", "MRPC" ...
  LabelKind label_kind = LabelKind::kClass;
  std::vector<std::string> label_names;  // of classes, in the order of their numbers
  // What it is judged by, the first one for choosing the best: "accuracy", "f1", "matthews",
  // "pearson", "spearman".
  std::vector<std::string> metrics;
  // Its splits beside "train"; the first one is what to evaluate while training.
  std::vector<std::string> splits;
};

// Case, "-" and "_" do not count; also "mnli-mm", which is MNLI with the mismatched sets first.
// UsageError naming the tasks there are.
StatusOr<GlueTask> FindGlueTask(std::string_view name);

struct GlueSplit {
  std::string path;
  ExampleSchema schema;
};

// `split` is "train", "dev", "test", for MNLI also "dev_matched", "dev_mismatched" and so on ("dev"
// is the first of its splits). Test sets have no labels. QQP's train and dev sets are read without
// the rows that lack fields. UsageError for an unknown split.
StatusOr<GlueSplit> GlueSplitOf(const GlueTask& task, std::string_view split,
                                const std::string& data_dir);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_GLUE_H_
