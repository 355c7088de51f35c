// glue.cc - the table of the tasks' files.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/glue.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/internal/abseil_text.h"

namespace dtrain {
namespace {

// Columns of a file; "" if it has none.
struct Columns {
  const char* text;
  const char* pair;
  const char* label;
  const char* id;
};

struct Row {
  const char* name;
  const char* folder;
  std::vector<std::string> labels;  // empty for regression
  std::vector<std::string> metrics;
  Columns labelled;  // columns of train and dev
  Columns test;
  bool header = true;         // true if train and dev have a header; test files always do
  bool skips_short = false;   // true if some rows of train and dev lack fields
  const char* no_label = "";  // the label of rows on which the annotators disagree
};

const std::vector<Row>& Table() {
  static const std::vector<Row> table = {
      {"cola", "CoLA", {"0", "1"}, {"matthews"}, {"3", "", "1", ""}, {"1", "", "", "0"}, false},
      {"sst-2", "SST-2", {"0", "1"}, {"accuracy"}, {"0", "", "1", ""}, {"1", "", "", "0"}},
      {"mrpc", "MRPC", {"0", "1"}, {"f1", "accuracy"}, {"3", "4", "0", ""}, {"3", "4", "", "0"}},
      {"sts-b", "STS-B", {}, {"pearson", "spearman"}, {"7", "8", "9", "0"}, {"7", "8", "", "0"}},
      {"qqp",
       "QQP",
       {"0", "1"},
       {"f1", "accuracy"},
       {"3", "4", "5", "0"},
       {"1", "2", "", "0"},
       true,
       true},
      {"mnli",
       "MNLI",
       {"contradiction", "entailment", "neutral"},
       {"accuracy"},
       {"8", "9", "-1", "0"},
       {"8", "9", "", "0"},
       true,
       false,
       "-"},
      {"qnli",
       "QNLI",
       {"entailment", "not_entailment"},
       {"accuracy"},
       {"1", "2", "3", "0"},
       {"1", "2", "", "0"}},
      {"rte",
       "RTE",
       {"entailment", "not_entailment"},
       {"accuracy"},
       {"1", "2", "3", "0"},
       {"1", "2", "", "0"}},
      {"wnli", "WNLI", {"0", "1"}, {"accuracy"}, {"1", "2", "3", "0"}, {"1", "2", "", "0"}},
  };
  return table;
}

std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '-' && c != '_') {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return plain;
}

const Row* FindRow(std::string_view name) {
  for (const Row& row : Table()) {
    if (Plain(row.name) == Plain(name)) return &row;
  }
  return nullptr;
}

}  // namespace

StatusOr<GlueTask> FindGlueTask(std::string_view name) {
  const bool mismatched = Plain(name) == "mnlimm";
  const Row* const row = FindRow(mismatched ? "mnli" : name);
  if (row == nullptr) {
    std::vector<std::string> names;
    for (const Row& known : Table()) names.emplace_back(known.name);
    return UsageError(absl::StrFormat("there is no GLUE task \"%s\"; the tasks are %s and mnli-mm",
                                      ToAbsl(name), absl::StrJoin(names, ", ")));
  }
  GlueTask task{.name = row->name,
                .folder = row->folder,
                .label_kind = row->labels.empty() ? LabelKind::kValue : LabelKind::kClass,
                .label_names = row->labels,
                .metrics = row->metrics,
                .splits = {"dev", "test"}};
  if (task.name == "mnli") {
    task.splits = {"dev_matched", "dev_mismatched", "test_matched", "test_mismatched"};
  }
  if (mismatched) {
    std::swap(task.splits[0], task.splits[1]);
    std::swap(task.splits[2], task.splits[3]);
  }
  return task;
}

StatusOr<GlueSplit> GlueSplitOf(const GlueTask& task, std::string_view split,
                                const std::string& data_dir) {
  const Row* const row = FindRow(task.name);
  if (row == nullptr) return UsageError("there is no GLUE task \"" + task.name + "\"");
  std::string file(split);
  if (split != "train") {
    const auto found =
        std::find_if(task.splits.begin(), task.splits.end(), [&](const std::string& s) {
          return s == split || (s.starts_with(split) && (split == "dev" || split == "test"));
        });
    if (found == task.splits.end()) {
      return UsageError(absl::StrFormat("%s has no split \"%s\"; its splits are train, %s",
                                        task.name, ToAbsl(split),
                                        absl::StrJoin(task.splits, ", ")));
    }
    file = *found;
  }
  const bool is_test = file.starts_with("test");
  const Columns& columns = is_test ? row->test : row->labelled;
  GlueSplit result{.path = data_dir + "/" + file + ".tsv",
                   .schema = {.format = RecordFormat::kTsv,
                              .header = is_test || row->header,
                              .text = columns.text,
                              .text_pair = columns.pair,
                              .labels = {},
                              .label_kind = task.label_kind,
                              .label_names = row->labels,
                              .id = columns.id}};
  result.schema.no_label = row->no_label;
  result.schema.unknown_label_advice =
      absl::StrFormat(", which are those of GLUE's %s; is the file of another task?", task.name);
  if (*columns.label != '\0') result.schema.labels = {columns.label};
  if (row->skips_short && !is_test) result.schema.bad_rows = BadRows::kSkipShort;
  return result;
}

}  // namespace dtrain
