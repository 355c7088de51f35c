// class_order.cc - looks at the files beside the weights, and compares names.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/internal/class_order.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/internal/json_text.h"
#include "nlohmann/json.hpp"

namespace dtrain::internal {
namespace {

// {"0": "no", "1": "yes"}; none where a number from 0 on is missing or a name is no text.
std::vector<std::string> ClassesOfJson(const std::string& text) {
  const nlohmann::json json = internal::ParseJson<nlohmann::json>(text);
  if (!json.is_object() || !json.contains("id2label")) return {};
  const nlohmann::json& names = json["id2label"];
  if (!names.is_object()) return {};
  std::vector<std::string> classes;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto name = names.find(absl::StrCat(i));
    if (name == names.end() || !name->is_string()) return {};
    classes.push_back(name->get<std::string>());
  }
  // transformers' names where nobody gave any.
  if (std::all_of(classes.begin(), classes.end(),
                  [](const std::string& name) { return name.starts_with("LABEL_"); })) {
    return {};
  }
  return classes;
}

std::string Shown(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  const size_t count = std::min(kShown, names.size());
  std::string text =
      absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(count), ", ");
  if (names.size() > count) absl::StrAppendFormat(&text, " and %d more", names.size() - count);
  return text;
}

bool AreSameSet(std::vector<std::string> a, std::vector<std::string> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

}  // namespace

std::vector<std::string> ClassesBeside(const std::string& file) {
  const std::string folder = ParentOf(file);
  // What cannot be read names no classes: this is advice, the weights are loaded.
  if (const auto json = ReadWholeFile(folder + "/config.json"); json.ok()) {
    return ClassesOfJson(*json);
  }
  const auto labels = ReadWholeFile(folder + "/labels.txt");
  if (!labels.ok()) return {};
  return absl::StrSplit(*labels, '\n', absl::SkipEmpty());
}

std::string OtherClasses(const std::string& file, const std::vector<std::string>& theirs,
                         const std::vector<std::string>& ours, std::string_view setting) {
  if (theirs.empty() || ours.empty() || theirs == ours) return "";
  std::string text =
      absl::StrFormat("%s: the file's classes are %s; here %s: ", file, Shown(theirs), Shown(ours));
  if (!AreSameSet(theirs, ours)) {
    return text +
           "unless they are the same by other names, the classifier's rows mean other "
           "classes";
  }
  text += "the classifier's rows mean other classes";
  if (!setting.empty()) {
    absl::StrAppend(&text, "; set ", ToAbsl(setting), "=", absl::StrJoin(theirs, ","));
  }
  return text;
}

}  // namespace dtrain::internal
