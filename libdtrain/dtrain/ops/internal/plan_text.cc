// plan_text.cc - reads and writes the header of a plan file, and splits its lines.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/plan_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/internal/abseil_text.h"

namespace dtrain {
namespace {

constexpr std::pair<DType, std::string_view> kTypeNames[] = {
    {DType::kFloat32, "fp32"}, {DType::kBFloat16, "bf16"}, {DType::kFloat16, "fp16"}};

// The value of a header line "name value", or an error.
StatusOr<std::string> HeaderValue(const std::vector<absl::string_view>& lines, size_t number,
                                  std::string_view name, std::string_view path) {
  const std::string_view line = number < lines.size() ? ToStd(lines[number]) : std::string_view();
  if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ' ') {
    return std::string(line.substr(name.size() + 1));
  }
  return StorageError(absl::StrFormat(
      "%s:%d: expected \"%s ...\"; delete the file to measure again", path, number + 1, name));
}

}  // namespace

std::string_view PlanTypeName(DType type) {
  for (const auto& [of, name] : kTypeNames) {
    if (of == type) return name;
  }
  DT_CHECK(false) << "plans exist for floating-point types only";
  return "";
}

DType PlanFields::Type(std::string_view key) {
  return kTypeNames[OneOf(key, kTypeNames, [](const auto& entry) { return entry.second; })].first;
}

std::string PlanTextHeader(const PlanFormat& format, const PlanPlatform& platform) {
  return absl::StrFormat("%s %d\n%s %d\ngpu %s\n# %s\n", format.title, format.version,
                         format.library, platform.library_version, platform.gpu, format.comment);
}

StatusOr<PlanPlatform> ParsePlanText(
    const PlanFormat& format, std::string_view text, std::string_view path,
    const std::function<void(PlanFields& fields, std::string note)>& read) {
  const std::vector<absl::string_view> lines = absl::StrSplit(ToAbsl(text), '\n');
  DT_ASSIGN_OR_RETURN(const std::string found, HeaderValue(lines, 0, format.title, path));
  if (found != std::to_string(format.version)) {
    return StorageError(
        absl::StrFormat("%s:1: the file has format %s, but this program reads format %d; delete it "
                        "to measure again",
                        path, found, format.version));
  }
  PlanPlatform platform;
  DT_ASSIGN_OR_RETURN(const std::string version, HeaderValue(lines, 1, format.library, path));
  DT_ASSIGN_OR_RETURN(platform.gpu, HeaderValue(lines, 2, "gpu", path));
  const auto parsed =
      std::from_chars(version.data(), version.data() + version.size(), platform.library_version);
  if (parsed.ec != std::errc() || parsed.ptr != version.data() + version.size()) {
    return StorageError(
        absl::StrFormat("%s:2: \"%s %s\" is not a version number", path, format.library, version));
  }
  for (size_t i = 3; i < lines.size(); ++i) {
    const std::string_view line = ToStd(lines[i]);
    const size_t comment = line.find('#');
    const std::string_view plan = line.substr(0, comment);
    if (plan.find_first_not_of(' ') == std::string_view::npos) continue;
    PlanFields fields(plan);
    read(fields, comment == std::string_view::npos
                     ? ""
                     : std::string(line.substr(std::min(line.size(), comment + 2))));
    if (const std::string wrong = fields.wrong(); !wrong.empty()) {
      return StorageError(
          absl::StrFormat("%s:%d: the field \"%s\" is wrong; delete the file to measure again",
                          path, i + 1, wrong));
    }
  }
  return platform;
}

}  // namespace dtrain
