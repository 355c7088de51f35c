// example_reader.cc - parses numbers in parallel, and handles labels and problems in row order.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/example_reader.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/check.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/internal/hash.h"
#include "dtrain/data/internal/prefetcher.h"
#include "dtrain/tasks/classification/internal/example_schema.h"

namespace dtrain {
namespace {

constexpr float kUnlabelled = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kMaxClasses = 10000;
constexpr size_t kMaxExamples = 5;  // number of messages kept

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Parses a decimal number, finite or not, which must be the whole text. Numbers too small for a
// double become 0.
bool ParseNumber(std::string_view text, double& value) {
  text = Trim(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ptr != end) return false;
  if (result.ec == std::errc::result_out_of_range) {
    value = std::strtod(std::string(text).c_str(), nullptr);
    return std::abs(value) < 1.0;
  }
  return result.ec == std::errc();
}

// True if the value fits a float, because labels and weights are stored as floats.
bool IsFiniteFloat(double value) { return std::abs(value) <= std::numeric_limits<float>::max(); }

bool IsNan(std::string_view text) {
  text = Trim(text);
  return text.empty() || text == "nan" || text == "NaN" || text == "NA";
}

// Problems of a row whose record itself is valid.
enum class ValueProblem : uint8_t {
  kNone,
  kRecord,
  kNoLabel,
  kNoGoldLabel,
  kUnknownLabel,
  kControlCharacter,
  kNoNumber,
  kNoFloat,
  kOutOfRange,
  kBadWeight
};

std::string_view ValueProblemName(ValueProblem problem) {
  switch (problem) {
    case ValueProblem::kNoLabel:
      return "no label";
    case ValueProblem::kNoGoldLabel:
      return "no gold label";
    case ValueProblem::kUnknownLabel:
      return "unknown label";
    case ValueProblem::kControlCharacter:
      return "control character in a label";
    case ValueProblem::kNoNumber:
      return "not a number";
    case ValueProblem::kNoFloat:
      return "too large a number";
    case ValueProblem::kOutOfRange:
      return "label outside 0 to 1";
    case ValueProblem::kBadWeight:
      return "negative weight";
    case ValueProblem::kNone:
    case ValueProblem::kRecord:
      break;
  }
  return "broken record";
}

struct RowVerdict {
  ValueProblem problem = ValueProblem::kNone;
  int32_t column = -1;  // index of the wanted column
};

float WeightOfGroups(GroupWeights kind, bool is_positive, uint32_t groups, size_t num_groups) {
  const bool any = groups != 0;
  const bool some_absent = groups != (uint64_t{1} << num_groups) - 1;
  const bool background = kind == GroupWeights::kKaggle ? some_absent : !any;
  int quarters = 1;
  if (any) ++quarters;
  if (is_positive && background) ++quarters;
  if (!is_positive && any) ++quarters;
  return 0.25f * static_cast<float>(quarters);
}

}  // namespace

std::vector<int32_t> SortedClasses(std::span<const std::string> classes) {
  std::vector<double> numbers(classes.size());
  bool all_numbers = true;
  for (size_t i = 0; i < classes.size(); ++i) {
    all_numbers = all_numbers && ParseNumber(classes[i], numbers[i]) &&
                  numbers[i] == std::floor(numbers[i]) && std::isfinite(numbers[i]);
  }
  std::vector<size_t> order(classes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (all_numbers && numbers[a] != numbers[b]) return numbers[a] < numbers[b];
    return classes[a] < classes[b];
  });
  std::vector<int32_t> place(classes.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int32_t>(i);
  return place;
}

std::string SimilarityOfLabels(std::string_view a, std::string_view b) {
  if (a == b) return "";
  double number_a = 0.0;
  double number_b = 0.0;
  if (ParseNumber(a, number_a) && ParseNumber(b, number_b)) {
    return number_a == number_b ? "the same number" : "";
  }
  // Capitals and spaces of any script.
  const auto folded = [](std::string_view text) {
    std::string plain;
    const auto* p = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    for (auto left = static_cast<utf8proc_ssize_t>(text.size()); left > 0;) {
      utf8proc_int32_t c = 0;
      const utf8proc_ssize_t bytes = utf8proc_iterate(p, left, &c);
      if (bytes <= 0) return std::string(text);
      utf8proc_uint8_t encoded[4];
      const utf8proc_ssize_t size = utf8proc_encode_char(utf8proc_tolower(c), encoded);
      if (!IsInvisible(static_cast<uint32_t>(c))) {
        plain.append(reinterpret_cast<const char*>(encoded), static_cast<size_t>(size));
      }
      p += bytes;
      left -= bytes;
    }
    return plain;
  };
  return folded(a) == folded(b) ? "the same but for capitals or spaces" : "";
}

struct ExampleReader::State {
  State(DelimitedReader r, const ExampleSchema& s) : reader(std::move(r)), schema(s) {
    classes =
        schema.label_kind == LabelKind::kClass ? schema.label_names : std::vector<std::string>();
    collects = schema.label_kind == LabelKind::kClass && classes.empty();
    for (size_t i = 0; i < classes.size(); ++i) {
      class_index.emplace(classes[i], static_cast<int32_t>(i));
    }
  }

  // The wanted columns, in this order: text, pair, labels, weight, id, groups.
  static DelimitedOptions MakeDelimitedOptions(const ExampleSchema& s) {
    DelimitedOptions options{.format = s.format,
                             .delimiter = s.delimiter,
                             .header = s.header,
                             .columns = {{s.text}},
                             .max_record_bytes = s.max_record_bytes,
                             .invalid = s.invalid};
    if (!s.text_pair.empty()) options.columns.push_back({s.text_pair});
    for (const std::string& label : s.labels) {
      options.columns.push_back({label, !s.labels_optional});
    }
    if (!s.weight.empty()) options.columns.push_back({s.weight});
    if (!s.id.empty()) options.columns.push_back({s.id});
    for (const std::string& group : s.groups) options.columns.push_back({group, false});
    return options;
  }
  // Refuses a file with labels whose header lacks groups, because nobody would be in those groups.
  // If labels are optional: a file without labels holds texts to predict; with only some of the
  // labels it could not be evaluated.
  static Status CheckColumns(const DelimitedReader& reader, const ExampleSchema& s) {
    const std::vector<std::string>& header = reader.header();
    const bool has_labels = std::any_of(s.labels.begin(), s.labels.end(), [&](const auto& label) {
      return std::find(header.begin(), header.end(), label) != header.end();
    });
    if (s.labels_optional ? !has_labels : s.groups.empty()) return OkStatus();
    ExampleSchema strict = s;
    if (s.labels_optional) strict.groups.clear();
    strict.labels_optional = false;
    DelimitedOptions options = MakeDelimitedOptions(strict);
    for (WantedColumn& column : options.columns) column.required = true;
    return DelimitedReader::Open(reader.path(), options).status();
  }
  int64_t label_column() const { return schema.text_pair.empty() ? 1 : 2; }
  int64_t weight_column() const {
    return label_column() + static_cast<int64_t>(schema.labels.size());
  }
  int64_t id_column() const { return weight_column() + (schema.weight.empty() ? 0 : 1); }
  int64_t group_column() const { return id_column() + (schema.id.empty() ? 0 : 1); }

  bool IsInShare(int64_t row) const {
    const RowShare& share = schema.share;
    if (share.begin <= 0.0 && share.end >= 1.0) return true;
    const uint64_t hash = internal::MixHash(internal::MixHash(share.seed, 0x73686172), row);
    const double u = static_cast<double>(hash >> 11) * 0x1.0p-53;
    return u >= share.begin && u < share.end;
  }

  RowVerdict ParseLabels(const RecordBlock& records, int64_t i, std::span<float> labels) const;
  RowVerdict ParseRow(const RecordBlock& records, int64_t i, Example& example,
                      std::span<float> labels) const;
  RowVerdict FindClass(const RecordBlock& records, int64_t i, float& label);
  std::string UnknownLabelAdvice(std::string_view label) const;
  std::string DescribeProblem(const RecordBlock& records, int64_t i, RowVerdict verdict) const;
  Status AddBad(const RecordBlock& records, int64_t i, RowVerdict verdict);
  Status CheckBadFraction() const;
  // Fills `examples` with the block's records.
  Status TakeRows(const RecordBlock& records, std::vector<float>& labels,
                  std::vector<Example>& examples);
  // Remembers which groups any row has, whether or not the row is in the share.
  void NoteGroups(const RecordBlock& records, int64_t i) {
    for (size_t g = 0; g < schema.groups.size(); ++g) {
      const std::string_view field = records.field(i, group_column() + static_cast<int64_t>(g));
      if (field.data() != nullptr) met_groups |= 1u << g;
    }
  }
  void NoteMended(const RowInfo& row) {
    if (row.mended && mended_rows++ == 0) first_mended = reader.Locate(row);
  }
  void WarnOfMended() {
    if (mended_rows == 0) return;
    counts.warnings.push_back(absl::StrFormat(
        "%s: %d row%s bytes that are not UTF-8, %s (the first: %s)", reader.path(), mended_rows,
        mended_rows == 1 ? " has" : "s have",
        schema.invalid == InvalidText::kSkip ? "whose fields count as empty" : "shown as U+FFFD",
        first_mended));
  }
  Status CheckGroups();
  bool has_all_rows() const { return schema.max_rows > 0 && counts.rows >= schema.max_rows; }

  DelimitedReader reader;
  ExampleSchema schema;
  ExampleCounts counts;
  std::vector<std::string> classes;
  std::map<std::string, int32_t, std::less<>> class_index;
  uint32_t met_groups = 0;  // groups that some row has
  int64_t mended_rows = 0;
  std::string first_mended;  // the place of the first such row
  bool met_labels = false;
  bool collects = false;
  bool ended = false;
  // The last member, because its thread uses the reader.
  std::optional<internal::Prefetcher<StatusOr<RecordBlock>>> ahead;
};

RowVerdict ExampleReader::State::ParseLabels(const RecordBlock& records, int64_t i,
                                             std::span<float> labels) const {
  for (size_t k = 0; k < schema.labels.size(); ++k) {
    const auto c = static_cast<int32_t>(label_column() + static_cast<int64_t>(k));
    const std::string_view field = records.field(i, c);
    labels[k] = kUnlabelled;
    if (Trim(field).empty()) {
      if (!schema.labels_optional) return {ValueProblem::kNoLabel, c};
      continue;
    }
    if (schema.label_kind == LabelKind::kClass) continue;  // FindClass() handles these
    double value = 0.0;
    if (!ParseNumber(field, value) || !std::isfinite(value)) return {ValueProblem::kNoNumber, c};
    if (k == 0 && schema.threshold) {
      value = value >= *schema.threshold ? 1.0 : 0.0;
    } else if (schema.label_kind == LabelKind::kMultiLabel && (value < 0.0 || value > 1.0)) {
      return {ValueProblem::kOutOfRange, c};
    }
    if (!IsFiniteFloat(value)) return {ValueProblem::kNoFloat, c};
    labels[k] = static_cast<float>(value);
  }
  return {};
}

RowVerdict ExampleReader::State::ParseRow(const RecordBlock& records, int64_t i, Example& example,
                                          std::span<float> labels) const {
  if (records.row(i).problem != RowProblem::kNone) return {ValueProblem::kRecord, -1};
  if (const RowVerdict verdict = ParseLabels(records, i, labels);
      verdict.problem != ValueProblem::kNone) {
    return verdict;
  }
  example.text = records.field(i, 0);
  example.labels = labels;
  example.row = records.row(i).row;
  if (!schema.text_pair.empty()) example.text_pair = records.field(i, 1);
  if (!schema.weight.empty()) {
    const auto c = static_cast<int32_t>(weight_column());
    double weight = 0.0;
    if (!ParseNumber(records.field(i, c), weight) || !std::isfinite(weight)) {
      return {ValueProblem::kNoNumber, c};
    }
    if (weight < 0.0) return {ValueProblem::kBadWeight, c};
    if (!IsFiniteFloat(weight)) return {ValueProblem::kNoFloat, c};
    example.weight = static_cast<float>(weight);
  }
  if (!schema.id.empty()) example.id = records.field(i, id_column());
  for (size_t g = 0; g < schema.groups.size(); ++g) {
    const auto c = static_cast<int32_t>(group_column() + static_cast<int64_t>(g));
    const std::string_view field = records.field(i, c);
    double value = 0.0;
    if (IsNan(field)) continue;
    if (!ParseNumber(field, value)) return {ValueProblem::kNoNumber, c};
    if (value >= schema.group_threshold) example.groups |= 1u << g;
  }
  if (schema.group_weights != GroupWeights::kNone) {
    example.weight *= WeightOfGroups(schema.group_weights, labels[0] > 0.5f, example.groups,
                                     schema.groups.size());
  }
  return {};
}

// For kClass, on one thread: new classes get numbers in the order of the rows.
RowVerdict ExampleReader::State::FindClass(const RecordBlock& records, int64_t i, float& label) {
  const auto c = static_cast<int32_t>(label_column());
  const std::string_view name = Trim(records.field(i, c));
  if (name.empty()) return {};
  if (name == schema.no_label) return {ValueProblem::kNoGoldLabel, c};
  auto found = class_index.find(name);
  if (found == class_index.end()) {
    if (internal::HasControlCharacter(name)) return {ValueProblem::kControlCharacter, c};
    if (!collects) return {ValueProblem::kUnknownLabel, c};
    found = class_index.emplace(name, static_cast<int32_t>(classes.size())).first;
    classes.emplace_back(name);
  }
  label = static_cast<float>(found->second);
  return {};
}

// A label that differs from one of the classes in its spelling alone needs other advice.
std::string ExampleReader::State::UnknownLabelAdvice(std::string_view label) const {
  for (const std::string& name : classes) {
    const std::string how = SimilarityOfLabels(label, name);
    if (how.empty()) continue;
    return absl::StrFormat("; \"%s\" and \"%s\" are %s: spell the label alike in all files",
                           Printable(label, 40), Printable(name, 40), how);
  }
  return schema.unknown_label_advice;
}

std::string ExampleReader::State::DescribeProblem(const RecordBlock& records, int64_t i,
                                                  RowVerdict verdict) const {
  const RowInfo& info = records.row(i);
  if (verdict.problem == ValueProblem::kRecord) return reader.DescribeProblem(info);
  const std::string_view field = Trim(records.field(i, verdict.column));
  const std::string value = Printable(field, 40);
  std::string text = reader.Locate(info, verdict.column) + ": ";
  switch (verdict.problem) {
    case ValueProblem::kNoLabel:
      return text + "has no label; use data.test for texts to predict";
    case ValueProblem::kNoGoldLabel:
      return text + absl::StrFormat("\"%s\" says that the row has no gold label", value);
    case ValueProblem::kUnknownLabel:
      return text + absl::StrFormat("\"%s\" is not one of the labels: %s%s", value,
                                    PrintableList(classes), UnknownLabelAdvice(field));
    case ValueProblem::kControlCharacter:
      return text + absl::StrFormat(
                        "\"%s\" has a line break, tab or other control character, which a class "
                        "name must not contain; change it, or name the column of labels in "
                        "data.label",
                        value);
    case ValueProblem::kNoFloat:
      return text + absl::StrFormat("\"%s\" is too large; the largest number is %.3g", value,
                                    std::numeric_limits<float>::max());
    case ValueProblem::kOutOfRange:
      return text + absl::StrFormat("\"%s\" is not within 0 and 1", value);
    case ValueProblem::kBadWeight:
      return text + absl::StrFormat("\"%s\" is a negative weight", value);
    default:
      return text + absl::StrFormat("\"%s\" is not a number", value);
  }
}

Status ExampleReader::State::AddBad(const RecordBlock& records, int64_t i, RowVerdict verdict) {
  const std::string_view kind = verdict.problem == ValueProblem::kRecord
                                    ? RowProblemName(records.row(i).problem)
                                    : ValueProblemName(verdict.problem);
  const bool has_no_label = verdict.problem == ValueProblem::kNoGoldLabel;
  if (has_no_label) ++counts.no_label;
  const bool skips = has_no_label || schema.bad_rows == BadRows::kSkip ||
                     (schema.bad_rows == BadRows::kSkipShort &&
                      records.row(i).problem == RowProblem::kWrongFields);
  if (!skips) {
    return DataError(DescribeProblem(records, i, verdict) +
                     " (bad_rows=skip leaves such rows out and counts them)");
  }
  ExampleCounts::Bad& bad = counts.bad[std::string(kind)];
  ++bad.rows;
  if (bad.examples.size() < kMaxExamples) {
    bad.examples.push_back(DescribeProblem(records, i, verdict));
  }
  return OkStatus();
}

Status ExampleReader::State::CheckBadFraction() const {
  const int64_t bad = counts.bad_rows() - counts.no_label;
  if (static_cast<double>(bad) <= schema.max_bad_fraction * static_cast<double>(counts.rows)) {
    return OkStatus();
  }
  const auto first = std::find_if(counts.bad.begin(), counts.bad.end(), [](const auto& kind) {
    return kind.first != ValueProblemName(ValueProblem::kNoGoldLabel);
  });
  return DataError(absl::StrFormat("%s (%d of %d rows are bad, the allowed share is %g)",
                                   first->second.examples[0], bad, counts.rows,
                                   schema.max_bad_fraction));
}

// For JSON lines: a group that no row has is an error, because its name is probably misspelt.
// (Other formats check their header.) With optional labels all groups may be missing, but if only
// some are, it warns.
Status ExampleReader::State::CheckGroups() {
  std::vector<std::string> missing;
  for (size_t g = 0; g < schema.groups.size(); ++g) {
    if ((met_groups >> g & 1u) == 0) missing.push_back(schema.groups[g]);
  }
  if (missing.empty() || counts.kept == 0 || has_all_rows()) return OkStatus();
  if (!schema.labels_optional) {
    return DataError(absl::StrFormat("%s: no row has \"%s\", which should be the column of a group",
                                     reader.path(), missing[0]));
  }
  if (met_labels && met_groups != 0) {
    counts.warnings.push_back(absl::StrFormat(
        "%s: has labels, but lacks the groups \"%s\"; metrics over all groups are nan",
        reader.path(), absl::StrJoin(missing, "\", \"")));
  }
  return OkStatus();
}

Status ExampleReader::State::TakeRows(const RecordBlock& records, std::vector<float>& labels,
                                      std::vector<Example>& examples) {
  const auto per_row = static_cast<size_t>(LabelsPerRow(schema));
  const auto rows = static_cast<size_t>(records.size());
  labels.assign(rows * per_row, kUnlabelled);
  examples.assign(rows, {});
  std::vector<RowVerdict> verdicts(rows);
  ParallelFor(records.size(), 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto row = static_cast<size_t>(i);
      if (!IsInShare(records.row(i).row)) continue;
      verdicts[row] =
          ParseRow(records, i, examples[row], std::span(labels).subspan(row * per_row, per_row));
    }
  });
  counts.file_rows += records.size();
  size_t kept = 0;
  for (size_t row = 0; row < rows && !has_all_rows(); ++row) {
    const auto i = static_cast<int64_t>(row);
    NoteGroups(records, i);
    NoteMended(records.row(i));
    if (!IsInShare(records.row(i).row)) continue;
    ++counts.rows;
    RowVerdict verdict = verdicts[row];
    if (verdict.problem == ValueProblem::kNone && schema.label_kind == LabelKind::kClass &&
        !schema.labels.empty()) {
      verdict = FindClass(records, i, labels[row * per_row]);
    }
    if (verdict.problem != ValueProblem::kNone) {
      DT_RETURN_IF_ERROR(AddBad(records, i, verdict));
      continue;
    }
    const Example& example = examples[row];
    if (IsBlank(example.text) || (!schema.text_pair.empty() && IsBlank(example.text_pair))) {
      ++counts.empty_texts;
    }
    if (!std::isnan(example.labels[0])) met_labels = true;
    ++counts.kept;
    if (kept != row) examples[kept] = example;
    ++kept;
  }
  examples.resize(kept);
  if (collects && classes.size() > kMaxClasses) {
    return DataError(absl::StrFormat(
        "%s: more than %d different labels in column \"%s\"; is it a number to regress to?",
        reader.path(), kMaxClasses, schema.labels[0]));
  }
  return OkStatus();
}

ExampleReader::ExampleReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ExampleReader::ExampleReader(ExampleReader&&) noexcept = default;
ExampleReader& ExampleReader::operator=(ExampleReader&&) noexcept = default;
ExampleReader::~ExampleReader() = default;

bool ExampleReader::has_header() const { return !state_->reader.header().empty(); }
const ExampleCounts& ExampleReader::counts() const { return state_->counts; }
const std::vector<std::string>& ExampleReader::classes() const { return state_->classes; }

StatusOr<ExampleReader> ExampleReader::Open(const std::string& path, const ExampleSchema& schema) {
  DT_RETURN_IF_ERROR(internal::CheckSchema(schema));
  DT_ASSIGN_OR_RETURN(DelimitedReader reader,
                      DelimitedReader::Open(path, State::MakeDelimitedOptions(schema)));
  DT_RETURN_IF_ERROR(State::CheckColumns(reader, schema));
  auto state = std::make_unique<State>(std::move(reader), schema);
  const auto read = [records = &state->reader]() -> StatusOr<RecordBlock> {
    RecordBlock block;
    DT_RETURN_IF_ERROR(records->NextBlock(block).status());
    return block;  // empty at the end of the file
  };
  state->ahead.emplace(read, 1);
  return ExampleReader(std::move(state));
}

StatusOr<bool> ExampleReader::NextBlock(ExampleBlock& block) {
  State& s = *state_;
  block.examples_.clear();
  while (!s.ended) {
    StatusOr<RecordBlock> records = s.ahead->Next();
    if (!records.ok()) return records.status();
    block.records_ = *std::move(records);
    DT_RETURN_IF_ERROR(s.TakeRows(block.records_, block.labels_, block.examples_));
    s.ended = block.records_.size() == 0 || s.has_all_rows();
    if (s.ended) {
      DT_RETURN_IF_ERROR(s.CheckBadFraction());
      DT_RETURN_IF_ERROR(s.CheckGroups());
      s.WarnOfMended();
    }
    if (!block.examples_.empty()) return true;
  }
  return false;
}

StatusOr<std::vector<std::string>> ClassesOf(const std::vector<std::string>& paths,
                                             const ExampleSchema& schema) {
  ExampleSchema all = schema;
  all.label_names.clear();
  all.bad_rows = BadRows::kSkip;
  all.max_bad_fraction = 1.0;
  std::set<std::string> met;
  for (const std::string& path : paths) {
    DT_ASSIGN_OR_RETURN(ExampleReader reader, ExampleReader::Open(path, all));
    ExampleBlock block;
    bool more = true;
    while (more) {
      DT_ASSIGN_OR_RETURN(more, reader.NextBlock(block));
    }
    met.insert(reader.classes().begin(), reader.classes().end());
  }
  const std::vector<std::string> names(met.begin(), met.end());
  const std::vector<int32_t> place = SortedClasses(names);
  std::vector<std::string> sorted(names.size());
  for (size_t i = 0; i < names.size(); ++i) sorted[static_cast<size_t>(place[i])] = names[i];
  return sorted;
}

}  // namespace dtrain
