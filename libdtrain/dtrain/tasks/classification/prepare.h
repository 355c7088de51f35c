// prepare.h - from files of labelled texts to a shard that training reads.
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
// The shard's name holds a key of the contents of the files, the schema, the tokenizer and the
// options: a second call finds it and reads nothing but the files' bytes. It appears whole or not
// at all, so several processes may prepare the same. Rows stream through: memory holds a few
// blocks of some MB and about 40 bytes a row. The result depends on inputs and options alone, not
// on the number of threads.
#ifndef DTRAIN_TASKS_CLASSIFICATION_PREPARE_H_
#define DTRAIN_TASKS_CLASSIFICATION_PREPARE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/classification/example_reader.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain {

struct ClassificationInput {
  std::string name;                // of the set, for the shard's name and messages
  std::vector<std::string> paths;  // read in this order; row numbers start anew in each
  // Where classes are collected they are those of all paths; give a set to evaluate those of the
  // training set.
  ExampleSchema schema;
  std::string cache_dir;  // made where it is not there
  // Of a row in tokens, [CLS] and [SEP] included; longer texts are cut, of a pair the longer one.
  int32_t max_length = 128;
  int num_threads = 0;  // 0: NumThreads()
};

struct ClassificationReport {
  std::string name;
  std::string shard_path;
  bool reused = false;  // the shard was there already
  ExampleCounts counts;
  int64_t tokens = 0;
  int64_t longest = 0;  // row, in tokens
  int64_t full = 0;     // rows of max_length tokens: cut, or just fitting
  std::vector<std::string> label_names;
  // kClass: rows of each class. kMultiLabel: rows where the label is at least 0.5.
  std::vector<int64_t> label_rows;
  int64_t unlabelled = 0;  // rows without a label, or the first of them
  double seconds = 0.0;

  // Some lines for people.
  std::string Describe() const;
};

// UsageError: a schema or options that cannot be. DataError: files that cannot be read or change
// meanwhile, bad rows where those are errors or too many, no row left. StorageError: cache_dir
// cannot be written.
StatusOr<ClassificationReport> PrepareClassification(const ClassificationInput& input,
                                                     const WordPieceTokenizer& tokenizer);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_PREPARE_H_
