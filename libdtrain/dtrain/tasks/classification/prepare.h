// prepare.h - turns files of labelled texts into a shard for training.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const ClassificationReport report,
//                       PrepareClassification({.name = "train",
//                                              .paths = {"train.csv"},
//                                              .schema = JigsawSchema(),
//                                              .cache_dir = "cache"},
//                                             tokenizer));
//   LogInfo(report.Describe());
//   DT_ASSIGN_OR_RETURN(ClassificationShard train, ClassificationShard::Open(report.shard_path));
//
// The shard's name contains a hash of the files' contents, the schema, the tokenizer and the
// options. A second call finds the shard and only hashes the files. The shard appears completely or
// not at all, so several processes may prepare the same one. Rows are streamed: memory holds a few
// blocks of some MB and about 40 bytes per row. The result depends only on inputs and options, not
// on the number of threads.
#ifndef DTRAIN_TASKS_CLASSIFICATION_PREPARE_H_
#define DTRAIN_TASKS_CLASSIFICATION_PREPARE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/classification/example_reader.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain {

struct ClassificationInput {
  std::string name;                // of the set, used in the shard's name and in messages
  std::vector<std::string> paths;  // read in this order; row numbers start from 1 in each
  // If the schema names no classes, they are collected from all paths. For an evaluation set, name
  // the classes of the training set.
  ExampleSchema schema;
  std::string cache_dir;  // created if it does not exist
  // Maximum length of a row in tokens, including [CLS] and [SEP]. Longer texts are cut; of a pair,
  // the longer text is cut.
  int32_t max_length = 128;
  int num_threads = 0;  // 0 means NumThreads()
};

struct ClassificationReport {
  std::string name;
  std::string shard_path;
  bool reused = false;  // the shard already existed
  ExampleCounts counts;
  int64_t tokens = 0;
  int64_t longest = 0;  // longest row, in tokens
  int64_t full = 0;     // rows with max_length tokens, which were cut or just fit
  std::vector<std::string> label_names;
  // kClass: number of rows of each class. kMultiLabel: rows in which the label is at least 0.5.
  std::vector<int64_t> label_rows;
  int64_t unlabelled = 0;  // rows without a (first) label
  double seconds = 0.0;

  // A readable summary of some lines.
  std::string Describe() const;
};

// Returns UsageError for an invalid schema or option. Returns DataError if files cannot be read or
// change meanwhile, if rows are bad and that is an error or there are too many, or if no row is
// left. Returns StorageError if cache_dir cannot be written.
StatusOr<ClassificationReport> PrepareClassification(const ClassificationInput& input,
                                                     const TextTokenizer& tokenizer);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_PREPARE_H_
