// prepare.cc - encodes and writes a block of rows while the next one is read.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/prepare.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/log.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/base/timer.h"
#include "dtrain/data/internal/file_content.h"
#include "dtrain/data/internal/hash.h"
#include "dtrain/data/internal/parallel_parts.h"
#include "dtrain/data/internal/shard_leftovers.h"
#include "dtrain/tasks/classification/classification_shard.h"

namespace dtrain {
namespace {

using Json = nlohmann::ordered_json;

// Increase this when equal inputs and options no longer give equal shards.
constexpr int kVersion = 3;

StatusOr<uint64_t> ComputeKey(const ClassificationInput& input, const TextTokenizer& tokenizer,
                              internal::InputFiles& files) {
  std::string identity =
      absl::StrFormat("version %d, tokenizer %016x, max_length %d, %s\n", kVersion,
                      tokenizer.Hash(), input.max_length, input.schema.Describe());
  for (const std::string& path : input.paths) {
    DT_ASSIGN_OR_RETURN(const std::string content, files.DescribeContent(path));
    // The file name determines the format.
    const bool by_name = input.schema.format == RecordFormat::kAuto;
    const std::string name = by_name ? std::filesystem::path(path).filename().string() : "";
    identity += absl::StrFormat("%s %s\n", content, name);
  }
  return internal::StableHash(identity);
}

std::string ReportToJson(const ClassificationReport& report) {
  Json bad = Json::object();
  for (const auto& [kind, entry] : report.counts.bad) {
    bad[kind] = {{"rows", entry.rows}, {"examples", entry.examples}};
  }
  const Json json = {{"rows", report.counts.rows},
                     {"kept", report.counts.kept},
                     {"empty_texts", report.counts.empty_texts},
                     {"bad", bad},
                     {"warnings", report.counts.warnings},
                     {"tokens", report.tokens},
                     {"longest", report.longest},
                     {"full", report.full},
                     {"label_rows", report.label_rows},
                     {"unlabelled", report.unlabelled},
                     {"seconds", report.seconds}};
  return internal::JsonText(json);
}

StatusOr<ClassificationReport> ReportFromJson(const ClassificationShard& shard) {
  ClassificationReport report;
  try {
    const Json json = internal::ParseJsonOrThrow<Json>(shard.report());
    report.counts.rows = json.at("rows");
    report.counts.kept = json.at("kept");
    report.counts.empty_texts = json.at("empty_texts");
    for (const auto& [kind, entry] : json.at("bad").items()) {
      report.counts.bad[kind] = {entry.at("rows"), entry.at("examples")};
    }
    report.counts.warnings = json.at("warnings").get<std::vector<std::string>>();
    report.tokens = json.at("tokens");
    report.longest = json.at("longest");
    report.full = json.at("full");
    report.label_rows = json.at("label_rows").get<std::vector<int64_t>>();
    report.unlabelled = json.at("unlabelled");
    report.seconds = json.at("seconds");
  } catch (const Json::exception& error) {
    return DataError(shard.path() + ": damaged report (" + error.what() + ")");
  }
  report.label_names = shard.info().label_names;
  return report;
}

// Reads the report of an existing shard with the same key. If the shard is damaged, it is made
// again.
StatusOr<ClassificationReport> FindEarlier(const std::string& path, uint64_t key,
                                           uint64_t vocab_hash) {
  DT_ASSIGN_OR_RETURN(const ClassificationShard shard,
                      ClassificationShard::Open(path, {.vocab_hash = vocab_hash}));
  if (shard.info().key != key) return DataError(path + ": its data is not that of its name");
  return ReportFromJson(shard);
}

class Preparation {
 public:
  Preparation(const ClassificationInput& input, const TextTokenizer& tokenizer,
              ClassificationShardWriter writer, ClassificationReport& report)
      : input_(input), encoder_(tokenizer), writer_(std::move(writer)), report_(report) {}

  Status Run() {
    const ExampleSchema& given = input_.schema;
    collects_ =
        given.label_kind == LabelKind::kClass && given.label_names.empty() && !given.labels.empty();
    for (const std::string& path : input_.paths) DT_RETURN_IF_ERROR(AddFile(path));
    if (report_.counts.file_rows == 0 && has_header_) {
      return DataError(input_.paths[0] + ": the file has a header and no rows");
    }
    if (report_.counts.kept == 0) {
      if (given.share.begin > 0.0 || given.share.end < 1.0) {
        return DataError(input_.paths[0] +
                         ": data.hold_out leaves one side without rows; give another share, or "
                         "data.dev");
      }
      const bool wants_labels = !given.labels.empty() && !given.labels_optional;
      return DataError(absl::StrFormat("%s: no row of %d is left; give at least one %stext",
                                       input_.paths[0], report_.counts.rows,
                                       wants_labels ? "labelled " : ""));
    }
    if (collects_) StoreCollected();
    if (given.group_weights != GroupWeights::kNone) writer_.NormalizeWeights();
    return OkStatus();
  }
  ClassificationShardWriter& writer() { return writer_; }

 private:
  Status AddFile(const std::string& path) {
    DT_ASSIGN_OR_RETURN(ExampleReader reader, ExampleReader::Open(path, input_.schema));
    for (ExampleBlock block;;) {
      DT_ASSIGN_OR_RETURN(const bool more, reader.NextBlock(block));
      if (!more) break;
      if (collects_) MergeClasses(reader.classes());
      DT_RETURN_IF_ERROR(AddBlock(block));
    }
    has_header_ = has_header_ || reader.has_header();
    AddCounts(reader.counts());
    return OkStatus();
  }

  Status AddBlock(const ExampleBlock& block) {
    const std::span<const Example> examples = block.examples();
    std::vector<std::string_view> first;
    std::vector<std::string_view> second;
    const bool is_pair = !input_.schema.text_pair.empty();
    for (const Example& example : examples) {
      first.push_back(example.text);
      if (is_pair) second.push_back(example.text_pair);
    }
    const EncodedTexts encoded =
        encoder_.Encode(first, second, {.max_length = static_cast<int>(input_.max_length)});
    std::vector<float> labels;
    for (size_t i = 0; i < examples.size(); ++i) {
      const Example& example = examples[i];
      labels.assign(example.labels.begin(), example.labels.end());
      if (collects_ && !std::isnan(labels[0])) {
        labels[0] = static_cast<float>(class_of_file_[static_cast<size_t>(labels[0])]);
      }
      CountRow(encoded.row(i), labels);
      DT_RETURN_IF_ERROR(writer_.Add({.ids = encoded.row(i),
                                      .first_length = static_cast<int32_t>(encoded.type0_sizes[i]),
                                      .labels = labels,
                                      .weight = example.weight,
                                      .groups = example.groups,
                                      .row = example.row,
                                      .name = example.id}));
    }
    return OkStatus();
  }

  void CountRow(std::span<const int32_t> ids, std::span<const float> labels) {
    const auto length = static_cast<int64_t>(ids.size());
    report_.tokens += length;
    report_.longest = std::max(report_.longest, length);
    if (length == input_.max_length) ++report_.full;
    if (std::isnan(labels[0])) {
      ++report_.unlabelled;
    } else if (input_.schema.label_kind == LabelKind::kClass) {
      const auto c = static_cast<size_t>(labels[0]);
      if (report_.label_rows.size() <= c) report_.label_rows.resize(c + 1);
      ++report_.label_rows[c];
    } else if (input_.schema.label_kind == LabelKind::kMultiLabel) {
      report_.label_rows.resize(labels.size());
      for (size_t k = 0; k < labels.size(); ++k) report_.label_rows[k] += labels[k] >= 0.5f;
    }
  }

  // Each file numbers its classes separately.
  void MergeClasses(const std::vector<std::string>& of_file) {
    class_of_file_.clear();
    for (const std::string& name : of_file) {
      const auto found = std::find(classes_.begin(), classes_.end(), name);
      class_of_file_.push_back(static_cast<int32_t>(found - classes_.begin()));
      if (found == classes_.end()) classes_.push_back(name);
    }
  }

  void StoreCollected() {
    const std::vector<int32_t> order = SortedClasses(classes_);
    std::vector<int64_t> rows(classes_.size());
    report_.label_rows.resize(classes_.size());
    report_.label_names.resize(classes_.size());
    for (size_t i = 0; i < classes_.size(); ++i) {
      const auto place = static_cast<size_t>(order[i]);
      report_.label_names[place] = classes_[i];
      rows[place] = report_.label_rows[i];
    }
    report_.label_rows = std::move(rows);
    writer_.SetClasses(report_.label_names, order);
    WarnOfSimilarClasses();
  }

  // Two spellings of one label would become two classes.
  void WarnOfSimilarClasses() {
    constexpr size_t kCompared = 200;
    const size_t count = std::min(classes_.size(), kCompared);
    for (size_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < i; ++k) {
        const std::string how = SimilarityOfLabels(classes_[k], classes_[i]);
        if (how.empty()) continue;
        report_.counts.warnings.push_back(absl::StrFormat(
            "%s: the labels \"%s\" and \"%s\" are %s, and count as two classes; spell them alike",
            input_.paths[0], Printable(classes_[k], 40), Printable(classes_[i], 40), how));
        return;
      }
    }
  }

  void AddCounts(const ExampleCounts& counts) {
    report_.counts.rows += counts.rows;
    report_.counts.file_rows += counts.file_rows;
    report_.counts.no_label += counts.no_label;
    report_.counts.kept += counts.kept;
    report_.counts.empty_texts += counts.empty_texts;
    for (const auto& [kind, bad] : counts.bad) {
      ExampleCounts::Bad& sum = report_.counts.bad[kind];
      sum.rows += bad.rows;
      sum.examples.insert(sum.examples.end(), bad.examples.begin(), bad.examples.end());
    }
    report_.counts.warnings.insert(report_.counts.warnings.end(), counts.warnings.begin(),
                                   counts.warnings.end());
  }

  const ClassificationInput& input_;
  TextBatchEncoder encoder_;
  ClassificationShardWriter writer_;
  ClassificationReport& report_;
  bool collects_ = false;
  bool has_header_ = false;             // true if one of the files has a header
  std::vector<std::string> classes_;    // in order of appearance
  std::vector<int32_t> class_of_file_;  // maps a file's classes to these
};

void LogWarnings(const ClassificationReport& report) {
  for (const std::string& warning : report.counts.warnings) LogWarning(warning);
}

Status CheckInput(const ClassificationInput& input) {
  if (input.name.empty() || input.name.find('/') != std::string::npos) {
    return UsageError("a set of texts needs a name without a slash, not \"" + input.name + "\"");
  }
  if (input.paths.empty()) return UsageError("no file of texts is given for " + input.name);
  if (input.cache_dir.empty())
    return UsageError("no folder is given for the shard of " + input.name);
  if (input.max_length < 3) {
    return UsageError(absl::StrFormat("max_length=%d; a pair needs at least 3", input.max_length));
  }
  if (input.num_threads < 0) return UsageError("num_threads must be at least 0 (0: all)");
  return OkStatus();
}

}  // namespace

std::string ClassificationReport::Describe() const {
  const auto rows = static_cast<double>(std::max<int64_t>(counts.kept, 1));
  std::string text = absl::StrFormat(
      "%s: %d of %d rows, %d tokens (%.1f a row, longest %d, %d rows full), %s\n", name,
      counts.kept, counts.rows, tokens, static_cast<double>(tokens) / rows, longest, full,
      reused ? std::string("prepared before and reused")
             : absl::StrFormat("%.1f s, %.0f rows/s", seconds,
                               seconds > 0.0 ? static_cast<double>(counts.rows) / seconds : 0.0));
  for (size_t i = 0; i < label_rows.size(); ++i) {
    const std::string label = i < label_names.size() ? label_names[i] : std::to_string(i);
    text += absl::StrFormat("  label %s: %d rows (%.1f %%)\n", label, label_rows[i],
                            100.0 * static_cast<double>(label_rows[i]) / rows);
  }
  if (unlabelled > 0) text += absl::StrFormat("  without a label: %d rows\n", unlabelled);
  if (counts.empty_texts > 0) text += absl::StrFormat("  empty texts: %d\n", counts.empty_texts);
  for (const auto& [kind, bad] : counts.bad) {
    text += absl::StrFormat("  left out, %s: %d rows\n", kind, bad.rows);
    for (const std::string& example : bad.examples) text += "    " + example + "\n";
  }
  return text;
}

StatusOr<ClassificationReport> PrepareClassification(const ClassificationInput& input,
                                                     const TextTokenizer& tokenizer) {
  const Timer timer;
  DT_RETURN_IF_ERROR(CheckInput(input));
  const internal::ScopedNumThreads threads(input.num_threads > 0 ? input.num_threads
                                                                 : NumThreads());
  internal::InputFiles files;
  DT_ASSIGN_OR_RETURN(const uint64_t key, ComputeKey(input, tokenizer, files));
  const std::string path = absl::StrFormat("%s/%s-%016x.shard", input.cache_dir, input.name, key);
  internal::RemoveShardLeftovers(path);
  if (std::filesystem::exists(path)) {
    StatusOr<ClassificationReport> earlier = FindEarlier(path, key, tokenizer.Hash());
    if (earlier.ok()) {
      earlier->name = input.name;
      earlier->shard_path = path;
      earlier->reused = true;
      LogWarnings(*earlier);
      return earlier;
    }
    LogWarning(std::string(earlier.status().message()) + "; it will be made again");
  }
  DT_RETURN_IF_ERROR(MakeDirectories(input.cache_dir));
  ClassificationReport report;
  report.name = input.name;
  report.shard_path = path;
  report.label_names = input.schema.label_names;
  if (input.schema.label_kind == LabelKind::kMultiLabel && report.label_names.empty()) {
    report.label_names = input.schema.labels;
  }
  DT_ASSIGN_OR_RETURN(
      ClassificationShardWriter writer,
      ClassificationShardWriter::Create(path, {.vocab_size = tokenizer.vocab_size(),
                                               .vocab_hash = tokenizer.Hash(),
                                               .key = key,
                                               .label_kind = input.schema.label_kind,
                                               .labels_per_row = LabelsPerRow(input.schema),
                                               .label_names = report.label_names,
                                               .group_names = input.schema.groups}));
  Preparation preparation(input, tokenizer, std::move(writer), report);
  const Status prepared = preparation.Run();
  // If an input was incomplete while it was read, report that instead of errors in its rows.
  DT_RETURN_IF_ERROR(files.CheckUnchanged());
  DT_RETURN_IF_ERROR(prepared);
  LogWarnings(report);
  report.seconds = timer.Seconds();
  DT_RETURN_IF_ERROR(preparation.writer().Finish(ReportToJson(report)));
  return report;
}

}  // namespace dtrain
