// example_schema.cc - checks schemas and describes them as text.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/internal/example_schema.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/printable.h"
#include "dtrain/tasks/classification/example_reader.h"

namespace dtrain {
namespace {

constexpr size_t kMaxGroups = 32;

Status CheckLabelNames(const std::vector<std::string>& names) {
  std::set<std::string> met;
  for (const std::string& name : names) {
    if (name.empty() || internal::HasControlCharacter(name)) {
      return UsageError(absl::StrFormat(
          "\"%s\" cannot name a label: it is empty or has a control character; give each label "
          "another name in data.label_names",
          Printable(name)));
    }
    if (!met.insert(name).second) {
      return UsageError(absl::StrFormat(
          "two labels are named \"%s\"; give each a name of its own in data.label_names",
          Printable(name)));
    }
  }
  return OkStatus();
}

}  // namespace

bool internal::HasControlCharacter(std::string_view name) {
  return std::any_of(name.begin(), name.end(), absl::ascii_iscntrl);
}

Status internal::CheckSchema(const ExampleSchema& s) {
  if (s.text.empty()) return UsageError("no column of texts is named");
  if (s.label_kind != LabelKind::kMultiLabel && s.labels.size() > 1) {
    return UsageError("several columns of labels need the kind multi_label");
  }
  if (s.label_kind == LabelKind::kMultiLabel && !s.label_names.empty() &&
      s.label_names.size() != s.labels.size()) {
    return UsageError(absl::StrFormat("%d names for %d columns of labels", s.label_names.size(),
                                      s.labels.size()));
  }
  if (s.label_kind == LabelKind::kMultiLabel && s.label_names.empty()) {
    DT_RETURN_IF_ERROR(CheckLabelNames(s.labels));
  } else {
    DT_RETURN_IF_ERROR(CheckLabelNames(s.label_names));
  }
  if (s.groups.size() > kMaxGroups) {
    return UsageError(absl::StrFormat("%d groups, at most %d", s.groups.size(), kMaxGroups));
  }
  if (s.threshold && s.label_kind == LabelKind::kClass) {
    return UsageError("a threshold needs labels that are numbers");
  }
  if (s.group_weights != GroupWeights::kNone &&
      (s.groups.empty() || !s.threshold || s.labels.empty())) {
    return UsageError("weights by groups need groups, a label and its threshold");
  }
  if (!(s.share.begin >= 0.0 && s.share.begin < s.share.end && s.share.end <= 1.0)) {
    return UsageError(
        absl::StrFormat("the share of rows from %g to %g is invalid; give 0 <= "
                        "begin < end <= 1",
                        s.share.begin, s.share.end));
  }
  if (!(s.max_bad_fraction >= 0.0 && s.max_bad_fraction <= 1.0)) {
    return UsageError("max_bad_fraction must be within 0 and 1");
  }
  if (s.max_record_bytes < 1 || s.max_rows < 0) {
    return UsageError("max_record_bytes must be at least 1, and max_rows at least 0");
  }
  return OkStatus();
}

int32_t LabelsPerRow(const ExampleSchema& schema) {
  return static_cast<int32_t>(std::max<size_t>(schema.labels.size(), 1));
}

std::string ExampleSchema::Describe() const {
  const auto join = [](const std::vector<std::string>& names) {
    std::string joined;  // sizes distinguish ("a", "b") from ("a,b")
    for (const std::string& name : names) joined += absl::StrFormat("%d:%s,", name.size(), name);
    return joined;
  };
  // Added only where they are set, so that shards prepared before keep their names.
  std::string later;
  if (!no_label.empty()) later += absl::StrFormat(", no_label %s", no_label);
  if (invalid != InvalidText::kFail)
    later += absl::StrFormat(", invalid %d", static_cast<int>(invalid));
  return absl::StrFormat(
      "format %d, delimiter %d, header %d, text %s, text_pair %s, labels %s, kind %d, names %s, "
      "optional %d, threshold %s, weight %s, id %s, groups %s, group_threshold %.17g, "
      "group_weights %d, bad_rows %d, max_bad_fraction %.17g, max_record_bytes %d, "
      "share %.17g to %.17g of seed %d, max_rows %d%s",
      static_cast<int>(format), delimiter, header, text, text_pair, join(labels),
      static_cast<int>(label_kind), join(label_names), labels_optional,
      threshold ? absl::StrFormat("%.17g", *threshold) : "none", weight, id, join(groups),
      group_threshold, static_cast<int>(group_weights), static_cast<int>(bad_rows),
      max_bad_fraction, max_record_bytes, share.begin, share.end, share.seed, max_rows, later);
}

}  // namespace dtrain
