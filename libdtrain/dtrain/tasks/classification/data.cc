// data.cc - which sets there are, what their files look like, and one shard for each.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/data.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/classification.pb.h"
#include "dtrain/comm/gather.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/config/internal/shortest_decimal.h"
#include "dtrain/tasks/classification/example_reader.h"
#include "dtrain/tasks/classification/glue.h"
#include "dtrain/tasks/classification/internal/config.h"
#include "dtrain/tasks/classification/jigsaw.h"
#include "dtrain/tasks/classification/predictions.h"
#include "dtrain/tasks/classification/prepare.h"
#include "dtrain/tasks/shared/internal/tokenization.h"

namespace dtrain {
namespace {

using Config = proto::ClassificationDataConfig;

enum class Role { kTrain, kDev, kTest };

struct PlannedSet {
  Role role;
  ClassificationInput input;
  std::string advice = {};  // behind errors of its files
};

GroupWeights GroupWeightsOf(Config::Weights weights) {
  switch (weights) {
    case Config::none:
      return GroupWeights::kNone;
    case Config::kaggle:
      return GroupWeights::kKaggle;
    case Config::fixed:
      break;
  }
  return GroupWeights::kFixed;
}

template <typename List>
std::vector<std::string> Strings(const List& list) {
  return {list.begin(), list.end()};
}

BadRows BadRowsOf(const Config& config) {
  return config.bad_rows() == Config::skip ? BadRows::kSkip : BadRows::kError;
}

ExampleSchema SchemaOf(const Config& config) {
  ExampleSchema schema;
  schema.header = config.header();
  schema.text = config.text();
  schema.text_pair = config.text_pair();
  if (config.label_size() > 0) schema.labels = Strings(config.label());
  schema.label_kind = internal::LabelKindOf(config.labels());
  schema.label_names = Strings(config.label_names());
  schema.weight = config.weight();
  schema.id = config.id();
  schema.groups = Strings(config.groups());
  schema.bad_rows = BadRowsOf(config);
  return schema;
}

// Which sets a run has, in the order in which they are prepared: training data first.
class SetPlan {
 public:
  SetPlan(const Config& config, const ClassifierDataOptions& options)
      : config_(config), options_(options) {}

  StatusOr<std::vector<PlannedSet>> Make() {
    const bool several =
        config_.jigsaw() || internal::LabelKindOf(config_.labels()) == LabelKind::kMultiLabel;
    if (!options_.with_labels && several) {
      return UsageError(
          "data.label= is for classes and values; of several labels per text leave data.label as "
          "it is: columns that the texts lack are passed over where they have a header");
    }
    if (!config_.glue().empty()) {
      DT_RETURN_IF_ERROR(AddGlue());
    } else {
      DT_RETURN_IF_ERROR(AddFiles());
    }
    if (sets_.empty()) return UsageError("no texts: set data.dev or data.test, or data.glue");
    const auto is_test = [](const PlannedSet& set) { return set.role == Role::kTest; };
    if (!options_.with_dev && std::ranges::any_of(sets_, is_test)) {
      std::erase_if(sets_, [](const PlannedSet& set) { return set.role == Role::kDev; });
    }
    return std::move(sets_);
  }
  const std::string& main_metric() const { return main_metric_; }

 private:
  void Add(Role role, std::string name, std::vector<std::string> paths, ExampleSchema schema) {
    if (role == Role::kTrain && !options_.with_train) return;
    const bool has_names = schema.label_kind == LabelKind::kClass ||
                           (schema.label_kind == LabelKind::kMultiLabel &&
                            schema.labels.size() == options_.label_names.size());
    if (has_names && !options_.label_names.empty()) {
      schema.label_names = options_.label_names;
      schema.unknown_label_advice =
          ", which are the checkpoint's; data.label= predicts without the texts' own";
    }
    if (!options_.with_labels) schema.labels.clear();
    schema.invalid = options_.invalid;
    // Metrics count every text once.
    if (role != Role::kTrain) schema.weight.clear();
    sets_.push_back({role,
                     {.name = std::move(name),
                      .paths = std::move(paths),
                      .schema = std::move(schema),
                      .cache_dir = options_.cache_dir,
                      .max_length = config_.max_length()},
                     role == Role::kTrain ? "" : AdviceToEmptyOthers()});
  }

  Status AddGlue() {
    DT_ASSIGN_OR_RETURN(const GlueTask task, FindGlueTask(config_.glue()));
    main_metric_ = task.metrics.front();
    DT_ASSIGN_OR_RETURN(GlueSplit train, GlueSplitOf(task, "train", config_.glue_dir()));
    if (config_.has_bad_rows()) train.schema.bad_rows = BadRowsOf(config_);
    Add(Role::kTrain, "train", {train.path}, train.schema);
    for (const std::string& name : task.splits) {
      DT_ASSIGN_OR_RETURN(GlueSplit split, GlueSplitOf(task, name, config_.glue_dir()));
      if (config_.has_bad_rows()) split.schema.bad_rows = BadRowsOf(config_);
      // Downloads do not always have the test sets.
      if (!std::filesystem::exists(split.path) && name.starts_with("test")) continue;
      Add(name.starts_with("dev") ? Role::kDev : Role::kTest, name, {split.path}, split.schema);
    }
    return OkStatus();
  }

  ExampleSchema Schema(Role role, const std::vector<std::string>& paths) const {
    if (!config_.jigsaw()) {
      ExampleSchema schema = SchemaOf(config_);
      schema.labels_optional = role == Role::kTest;
      return schema;
    }
    const JigsawOptions jigsaw{.labelled = role != Role::kTest,
                               .label = JigsawLabelColumn(paths),
                               .auxiliary = config_.jigsaw_auxiliary(),
                               .group_weights = GroupWeightsOf(config_.weights()),
                               .bad_rows = BadRowsOf(config_)};
    return JigsawSchema(jigsaw);
  }

  // Advice for a table of one's own with a preset, whose dev and test sets stay: how to empty them.
  std::string AdviceToEmptyOthers() const {
    if (config_.train_size() == 0 || !options_.with_train) return "";
    const auto folder = [](const std::string& path) {
      return std::filesystem::path(path).parent_path();
    };
    std::string keys;
    for (const auto& [key, paths] :
         {std::pair("data.dev=", &config_.dev()), std::pair("data.test=", &config_.test())}) {
      if (paths->empty() || folder(paths->Get(0)) == folder(config_.train(0))) continue;
      keys += (keys.empty() ? "" : " ") + std::string(key);
    }
    if (keys.empty()) return "";
    return "; dev and test sets that belong to other data are left out with " + keys;
  }

  // The classes of all rows, where dev is a part of the training files: it may have some that the
  // other part lacks.
  Status CollectClasses(ExampleSchema& train, ExampleSchema& dev) const {
    const bool collects = train.label_kind == LabelKind::kClass && train.label_names.empty();
    if (!collects || !options_.label_names.empty()) return OkStatus();
    DT_ASSIGN_OR_RETURN(train.label_names, ClassesOf(Strings(config_.train()), train));
    dev.label_names = train.label_names;
    return OkStatus();
  }

  Status AddFiles() {
    const std::vector<std::string> train_paths = Strings(config_.train());
    const std::vector<std::string> test_paths = Strings(config_.test());
    std::vector<std::string> dev_paths = Strings(config_.dev());
    const double hold_out = internal::ShortestDecimal(config_.hold_out());
    const bool holds_out = dev_paths.empty() && hold_out > 0.0 && !train_paths.empty();
    if (holds_out) dev_paths = train_paths;
    ExampleSchema train = Schema(Role::kTrain, train_paths);
    ExampleSchema dev = Schema(Role::kDev, dev_paths);
    if (holds_out) {
      DT_RETURN_IF_ERROR(CollectClasses(train, dev));
      train.share.end = dev.share.begin = 1.0 - hold_out;
    }
    train.unknown_label_advice += AdviceToEmptyOthers();
    if (!train_paths.empty()) Add(Role::kTrain, "train", train_paths, train);
    if (!dev_paths.empty()) Add(Role::kDev, "dev", std::move(dev_paths), std::move(dev));
    if (!test_paths.empty()) {
      Add(Role::kTest, "test", test_paths, Schema(Role::kTest, test_paths));
    }
    return OkStatus();
  }

  const Config& config_;
  const ClassifierDataOptions& options_;
  std::vector<PlannedSet> sets_;
  std::string main_metric_;
};

// One class leaves nothing to learn.
void WarnOfOneClass(const ClassificationReport& train) {
  const auto is_met = [](int64_t rows) { return rows > 0; };
  if (std::count_if(train.label_rows.begin(), train.label_rows.end(), is_met) != 1) return;
  const auto found = std::find_if(train.label_rows.begin(), train.label_rows.end(), is_met);
  LogWarning(absl::StrFormat(
      "train: all rows have the label \"%s\", a model learns nothing from them; is data.label the "
      "right column?",
      train.label_names[static_cast<size_t>(found - train.label_rows.begin())]));
}

// On the root: the shards by role. Classes that the training data has are those of all sets.
StatusOr<ClassifierData> PrepareOnRoot(const Config& config, const ClassifierDataOptions& options) {
  SetPlan plan(config, options);
  DT_ASSIGN_OR_RETURN(std::vector<PlannedSet> sets, plan.Make());
  DT_ASSIGN_OR_RETURN(const TextTokenizer tokenizer,
                      TextTokenizer::Load(config.vocabulary(), internal::TokenizationOf(config)));
  internal::WarnOfCapitals(tokenizer, config.vocabulary());
  ClassifierData data{.train = {}, .dev = {}, .test = {}, .main_metric = plan.main_metric()};
  std::vector<std::string> classes;
  for (PlannedSet& set : sets) {
    if (set.input.schema.label_kind == LabelKind::kClass && !classes.empty()) {
      if (set.input.schema.label_names.empty()) {
        set.input.schema.unknown_label_advice =
            "; the training data has no such label: name all of them in data.label_names";
      }
      set.input.schema.label_names = classes;
    }
    const StatusOr<ClassificationReport> prepared = PrepareClassification(set.input, tokenizer);
    if (!prepared.ok() && prepared.status().code() == ExitCode::kData) {
      return DataError(prepared.status().message() + set.advice);
    }
    DT_ASSIGN_OR_RETURN(const ClassificationReport report, prepared);
    LogInfo(report.Describe());
    if (const int64_t bad = report.counts.bad_rows(); bad > 0) {
      LogWarning(absl::StrFormat("%s: %d of %d rows are left out, among them: %s", report.name, bad,
                                 report.counts.rows,
                                 report.counts.bad.begin()->second.examples.front()));
    }
    switch (set.role) {
      case Role::kTrain:
        data.train = report.shard_path;
        if (set.input.schema.label_kind == LabelKind::kClass) WarnOfOneClass(report);
        classes = report.label_names;
        break;
      case Role::kDev:
        data.dev.push_back({set.input.name, report.shard_path});
        break;
      case Role::kTest:
        data.test.push_back({set.input.name, report.shard_path});
        break;
    }
  }
  return data;
}

// One line for each shard: role, name, path.
std::string ToText(const ClassifierData& data) {
  std::string text = absl::StrCat("metric\t\t", data.main_metric, "\n");
  absl::StrAppend(&text, "train\t\t", data.train, "\n");
  for (const NamedShard& set : data.dev) {
    absl::StrAppend(&text, "dev\t", set.name, "\t", set.path, "\n");
  }
  for (const NamedShard& set : data.test) {
    absl::StrAppend(&text, "test\t", set.name, "\t", set.path, "\n");
  }
  return text;
}

ClassifierData FromText(const std::string& text) {
  ClassifierData data;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits('\t', 2));
    if (fields.size() < 3) continue;
    if (fields[0] == "metric") data.main_metric = fields[2];
    if (fields[0] == "train") data.train = fields[2];
    if (fields[0] == "dev") data.dev.push_back({fields[1], fields[2]});
    if (fields[0] == "test") data.test.push_back({fields[1], fields[2]});
  }
  return data;
}

}  // namespace

std::vector<std::string> TextFilesOf(const Config& config) {
  std::vector<std::string> files = {config.vocabulary()};
  for (const auto* const list : {&config.train(), &config.dev(), &config.test()}) {
    files.insert(files.end(), list->begin(), list->end());
  }
  const StatusOr<GlueTask> task = FindGlueTask(config.glue());
  if (!task.ok()) return files;
  std::vector<std::string> splits = task->splits;
  splits.emplace_back("train");
  for (const std::string& name : splits) {
    const StatusOr<GlueSplit> split = GlueSplitOf(*task, name, config.glue_dir());
    if (split.ok()) files.push_back(split->path);
  }
  return files;
}

StatusOr<std::vector<std::string>> ReadTextColumns(const Config& config,
                                                   const ClassifierDataOptions& options,
                                                   const std::string& name, int64_t rows) {
  SetPlan plan(config, options);
  DT_ASSIGN_OR_RETURN(const std::vector<PlannedSet> sets, plan.Make());
  const auto set = std::find_if(sets.begin(), sets.end(), [&](const PlannedSet& planned) {
    return planned.input.name == name && planned.role != Role::kTrain;
  });
  DT_CHECK(set != sets.end()) << name;
  const bool has_pairs = !set->input.schema.text_pair.empty();
  std::vector<std::string> columns = {TextColumnsHeader(has_pairs)};
  for (const std::string& path : set->input.paths) {
    DT_ASSIGN_OR_RETURN(ExampleReader reader, ExampleReader::Open(path, set->input.schema));
    ExampleBlock block;
    for (;;) {
      DT_ASSIGN_OR_RETURN(const bool has_more, reader.NextBlock(block));
      if (!has_more) break;
      for (const Example& example : block.examples()) {
        columns.push_back(
            TextColumns(example.text, has_pairs ? std::optional(example.text_pair) : std::nullopt));
      }
    }
  }
  if (static_cast<int64_t>(columns.size()) == rows + 1) return columns;
  return DataError(absl::StrFormat("%s: has %d rows, but had %d before; it was changed meanwhile",
                                   absl::StrJoin(set->input.paths, ", "), columns.size() - 1,
                                   rows));
}

StatusOr<ClassifierData> PrepareClassifierData(const Config& config,
                                               const ClassifierDataOptions& options,
                                               Runtime& runtime) {
  StatusOr<ClassifierData> data = ClassifierData();
  if (runtime.comm.is_root()) data = PrepareOnRoot(config, options);
  DT_RETURN_IF_ERROR(ShareRootStatus(data.status(), "prepare the data", runtime.comm));
  return FromText(BroadcastString(runtime.comm, ToText(*data)));
}

}  // namespace dtrain
