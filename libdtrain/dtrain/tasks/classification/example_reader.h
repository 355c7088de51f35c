// example_reader.h - labelled texts out of any CSV, TSV or JSON-lines file, by column names.
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
// A row is bad when its record is (delimited_reader.h), when its label is none of the given ones,
// or a label, weight or group is not a number where one is wanted. Bad rows end the reading with a
// DataError that names file, line, row and column, or are left out and counted, as the schema says.
// Texts may be empty: they are counted, and stay.
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
#include "dtrain/tasks/classification/shard.h"

namespace dtrain {

enum class BadRows {
  kError,
  kSkip,
  kSkipShort  // those with a wrong number of fields are skipped, others are errors
};

// Weights of the Jigsaw competition's public kernels, from the label and the groups; each term
// counts a quarter: 1, any group, positive in the background, negative in a group. kKaggle takes
// "positive and some group is absent" for the third, as those kernels do, which is nearly every
// positive row; kFixed takes what was meant, "positive and no group". Scaled to a mean of 1.
enum class GroupWeights { kNone, kKaggle, kFixed };

// A share of the rows, drawn by a hash of their number: [0, 0.9) and [0.9, 1) of one file are train
// and dev without overlap.
struct RowShare {
  double begin = 0.0;
  double end = 1.0;
  uint64_t seed = 0;
};

// What a file of labelled texts looks like, and what its labels mean. Columns are names in the
// header, or numbers from 0 ("-1": the last of a row).
struct ExampleSchema {
  RecordFormat format = RecordFormat::kAuto;
  char delimiter = '\0';  // 0: a comma in CSV, a tab in TSV
  bool header = true;

  std::string text = "text";
  std::string text_pair = {};                   // empty: single texts
  std::vector<std::string> labels = {"label"};  // one unless kMultiLabel; none: texts to predict
  LabelKind label_kind = LabelKind::kClass;
  // kClass: the classes in the order of their numbers; empty: those the file has, by number where
  // all are numbers, else by text. kMultiLabel: names for the labels; empty: those of the columns.
  std::vector<std::string> label_names = {};
  // Rows, or the file, may lack the labels, all of them: they are NaN then. A header with some of
  // the columns is a DataError that names one which is missing.
  bool labels_optional = false;
  // The first label becomes 1 from here on and 0 below.
  std::optional<double> threshold = std::nullopt;

  std::string weight = {};  // a number, at least 0; none: 1
  std::string id = {};      // kept as it is, for predictions
  // Numbers; at or above group_threshold the row belongs to the group. Empty and NaN are 0, and in
  // JSON lines a row that lacks them. With labels_optional the file may lack them.
  std::vector<std::string> groups = {};
  double group_threshold = 0.5;
  GroupWeights group_weights = GroupWeights::kNone;  // multiplies `weight`; needs a threshold

  BadRows bad_rows = BadRows::kError;
  double max_bad_fraction = 0.01;  // more than this share of skipped rows is an error
  int64_t max_record_bytes = 8 << 20;
  RowShare share = {};
  int64_t max_rows = 0;  // rows read at most, after `share`; 0: all

  // Ends the message about a label that is none of label_names.
  std::string unknown_label_advice = "; name all of them in data.label_names";

  // Everything that decides what is read, as text: equal texts mean equal results.
  std::string Describe() const;
};

struct Example {
  std::string_view text;
  std::string_view text_pair;
  std::span<const float> labels;  // [max(labels, 1)]
  float weight = 1.0f;
  uint32_t groups = 0;  // bit i: group i
  int64_t row = 0;      // from 1
  std::string_view id;
};

// Examples, and the bytes they lie in; reused from call to call.
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
  int64_t rows = 0;  // read, of the share
  int64_t kept = 0;
  int64_t empty_texts = 0;  // a text, or a side of a pair, that is empty
  struct Bad {
    int64_t rows = 0;
    std::vector<std::string> examples;  // messages, the first 5
  };
  std::map<std::string, Bad> bad;  // by kind: "wrong number of fields", "unknown label" ...
  // At the end, with labels_optional: the file has labels and some of the groups, but not all.
  std::vector<std::string> warnings;

  int64_t bad_rows() const { return rows - kept; }
};

// The classes of the files' labels in the order of their numbers; bad rows are passed over.
StatusOr<std::vector<std::string>> ClassesOf(const std::vector<std::string>& paths,
                                             const ExampleSchema& schema);

class ExampleReader {
 public:
  // UsageError for a schema that cannot be; DataError as DelimitedReader::Open().
  static StatusOr<ExampleReader> Open(const std::string& path, const ExampleSchema& schema);
  ExampleReader(ExampleReader&&) noexcept;
  ExampleReader& operator=(ExampleReader&&) noexcept;
  ~ExampleReader();

  // Reads a few MB; false at the end. A thread reads ahead; numbers are parsed on the thread pool.
  StatusOr<bool> NextBlock(ExampleBlock& block);

  // So far.
  const ExampleCounts& counts() const;
  // kClass: the classes met or given. Where they were collected, a label is an index into this
  // list, which is in order of appearance; SortedClasses() gives the order to store.
  const std::vector<std::string>& classes() const;

 private:
  struct State;
  explicit ExampleReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// For each of `classes` its place when they are sorted: by number where all are whole numbers, else
// by bytes.
std::vector<int32_t> SortedClasses(std::span<const std::string> classes);

// At least 1.
int32_t LabelsPerRow(const ExampleSchema& schema);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_EXAMPLE_READER_H_
