// example_reader.h - reads labelled texts from a CSV, TSV or JSON-lines file, by column names.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(ExampleReader reader,
//                       ExampleReader::Open("reviews.csv", {.text = "review", .labels =
//                       {"stars"}}));
//   for (ExampleBlock block;;) {
//     DT_ASSIGN_OR_RETURN(const bool more, reader.NextBlock(block));
//     if (!more) break;
//     for (const Example& example : block.examples()) Use(example);
//   }
//
// A row is bad in three cases: its record is broken (delimited_reader.h), its label is not one of
// the given labels, or a label, weight or group is not a number although it must be. As the schema
// says, a bad row either ends reading with a DataError that names file, line, row and column, or is
// skipped and counted. Empty texts are counted but kept.
#ifndef DTRAIN_TASKS_CLASSIFICATION_EXAMPLE_READER_H_
#define DTRAIN_TASKS_CLASSIFICATION_EXAMPLE_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/data/delimited_reader.h"
#include "dtrain/tasks/classification/classification_shard.h"

namespace dtrain {

enum class BadRows {
  kError,
  kSkip,
  kSkipShort  // rows with a wrong number of fields are skipped; other bad rows are errors
};

// Row weights of the Jigsaw competition's public kernels, from the label and the groups. A weight
// is the sum of four terms, a quarter each: always; the row has any group; positive without a
// group; negative with a group. kKaggle reproduces the kernels' bug: its third term is "positive,
// and at least one group is absent", which holds for nearly every positive row. kFixed uses the
// intended "positive without any group". Weights are scaled to a mean of 1.
enum class GroupWeights { kNone, kKaggle, kFixed };

// A share of the rows, selected by a hash of their number. For example, [0, 0.9) and [0.9, 1) of
// one file are disjoint sets for train and dev.
struct RowShare {
  double begin = 0.0;
  double end = 1.0;
  uint64_t seed = 0;
};

// Describes the format of a file of labelled texts and the meaning of its labels. Columns are names
// in the header, or numbers from 0 ("-1" is the last of a row).
struct ExampleSchema {
  RecordFormat format = RecordFormat::kAuto;
  char delimiter = '\0';  // 0 means a comma in CSV and a tab in TSV
  bool header = true;

  std::string text = "text";
  std::string text_pair = {};                   // empty for single texts
  std::vector<std::string> labels = {"label"};  // one column, or several with kMultiLabel; empty
                                                // for texts to predict
  LabelKind label_kind = LabelKind::kClass;
  // kClass: the classes in the order of their numbers. If empty, the classes that occur in the
  // file, sorted by number if all are numbers, otherwise by text. kMultiLabel: the labels' names;
  // if empty, the column names.
  std::vector<std::string> label_names = {};
  // kClass: a label that means "no label", for example "-" in MNLI where the annotators disagree.
  // Such rows are left out and counted, and do not count as bad rows.
  std::string no_label = {};
  // If true, rows or the whole file may lack all labels, which are then NaN. A header with only
  // some of the columns is a DataError that names a missing one.
  bool labels_optional = false;
  // If set, the first label becomes 1 if it is at least this value, otherwise 0.
  std::optional<double> threshold = std::nullopt;

  std::string weight = {};  // column of numbers >= 0; empty for weight 1
  std::string id = {};      // column of ids, which are kept for predictions
  // Columns of numbers. A row belongs to a group if the number is at least group_threshold. Empty
  // fields, NaN, and missing keys in JSON lines count as 0. With labels_optional the file may lack
  // these columns.
  std::vector<std::string> groups = {};
  double group_threshold = 0.5;
  GroupWeights group_weights = GroupWeights::kNone;  // multiplies `weight`; needs a threshold

  BadRows bad_rows = BadRows::kError;
  double max_bad_fraction = 0.01;  // a larger share of skipped rows is an error
  int64_t max_record_bytes = 8 << 20;
  // Fields that are not UTF-8; unless they fail, counts.warnings names the first such row.
  InvalidText invalid = InvalidText::kFail;
  RowShare share = {};
  int64_t max_rows = 0;  // maximum number of rows read, after `share`; 0 for all

  // The end of the error message about a label that is not in label_names.
  std::string unknown_label_advice =
      "; name all of them in data.label_names, or set data.label_names= to take them from the file";

  // A text of all settings that affect the result: equal texts mean equal results.
  std::string Describe() const;
};

struct Example {
  std::string_view text;
  std::string_view text_pair;
  std::span<const float> labels;  // [max(labels, 1)]
  float weight = 1.0f;
  uint32_t groups = 0;  // bit i is set if the row belongs to group i
  int64_t row = 0;      // row number, from 1
  std::string_view id;
};

// Examples and the memory they point into. Reused from call to call.
class ExampleBlock {
 public:
  std::span<const Example> examples() const { return examples_; }

 private:
  friend class ExampleReader;
  RecordBlock records_;
  std::vector<float> labels_;
  std::vector<Example> examples_;
};

struct ExampleCounts {
  int64_t rows = 0;       // number of rows read in the share
  int64_t file_rows = 0;  // number of rows read, in the share or not
  int64_t kept = 0;
  int64_t empty_texts = 0;  // rows in which a text, or one side of a pair, is empty
  struct Bad {
    int64_t rows = 0;
    std::vector<std::string> examples;  // the first 5 messages
  };
  int64_t no_label = 0;            // rows without a gold label (ExampleSchema::no_label)
  std::map<std::string, Bad> bad;  // by kind, for example "wrong number of fields" or "unknown
                                   // label"
  // Set at the end: warns if the file has labels, but only some of the groups, and if bytes were
  // replaced.
  std::vector<std::string> warnings;

  int64_t bad_rows() const { return rows - kept; }
};

// The classes of the files' labels in the order of their numbers. Bad rows are skipped.
StatusOr<std::vector<std::string>> ClassesOf(const std::vector<std::string>& paths,
                                             const ExampleSchema& schema);

class ExampleReader {
 public:
  // Returns UsageError for an invalid schema, and DataError like DelimitedReader::Open().
  static StatusOr<ExampleReader> Open(const std::string& path, const ExampleSchema& schema);
  ExampleReader(ExampleReader&&) noexcept;
  ExampleReader& operator=(ExampleReader&&) noexcept;
  ~ExampleReader();

  // Reads some MB of examples. Returns false at the end. A thread reads ahead, and the thread pool
  // parses numbers.
  StatusOr<bool> NextBlock(ExampleBlock& block);

  bool has_header() const;
  // The counts up to now.
  const ExampleCounts& counts() const;
  // kClass: the classes found or given. If they are collected from the file, a label is an index
  // into this list, which is in order of appearance. SortedClasses() gives their final order.
  const std::vector<std::string>& classes() const;

 private:
  struct State;
  explicit ExampleReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// For each of `classes` its position when they are sorted: by number if all are integers, otherwise
// by bytes.
std::vector<int32_t> SortedClasses(std::span<const std::string> classes);

// Says how two different labels may be one label in two spellings: "the same number" or "the same
// but for capitals or spaces". Returns "" if they are not alike.
std::string SimilarityOfLabels(std::string_view a, std::string_view b);

// Number of labels per row, at least 1.
int32_t LabelsPerRow(const ExampleSchema& schema);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_EXAMPLE_READER_H_
