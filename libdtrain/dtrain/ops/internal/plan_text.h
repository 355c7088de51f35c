// plan_text.h - text files of measured plans: a header, then one plan per line.
// SPDX-License-Identifier: Apache-2.0
//
//   dtrain gemm plans 1
//   cublaslt 130100
//   gpu NVIDIA H200
//   # what the fields mean
//   m=4096 n=2048 ... by=parts # a note for human readers
#ifndef DTRAIN_OPS_INTERNAL_PLAN_TEXT_H_
#define DTRAIN_OPS_INTERNAL_PLAN_TEXT_H_

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/strings/str_split.h"
#include "dtrain/base/dtype.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/status.h"

namespace dtrain {

// The conditions under which plans are valid: one version of the library and one kind of GPU.
struct PlanPlatform {
  size_t library_version = 0;
  std::string gpu;

  friend bool operator==(const PlanPlatform&, const PlanPlatform&) = default;
};

struct PlanFormat {
  std::string_view title;
  int version = 1;           // files of another version are ignored, and the plans are measured
                             // again
  std::string_view library;  // name of the library in the header, before its version
  std::string_view comment;  // one line
};

// For example "bf16".
std::string_view PlanTypeName(DType type);

// Reads the "key=value" fields of one line in the order in which they were written. The first field
// that is wrong is kept as the error.
class PlanFields {
 public:
  explicit PlanFields(std::string_view line)
      : fields_(absl::StrSplit(ToAbsl(line), ' ', absl::SkipEmpty())) {}

  std::string_view Text(std::string_view key) {
    const std::string_view field =
        at_ < fields_.size() ? std::string_view(fields_[at_]) : std::string_view();
    ++at_;
    if (field.size() > key.size() && field.starts_with(key) && field[key.size()] == '=') {
      return field.substr(key.size() + 1);
    }
    Fail(key);
    return {};
  }

  template <typename Number>
  Number Parse(std::string_view key, std::string_view text, int base = 10) {
    Number number{};
    std::from_chars_result result{};
    if constexpr (std::is_floating_point_v<Number>) {
      result = std::from_chars(text.data(), text.data() + text.size(), number);
    } else {
      result = std::from_chars(text.data(), text.data() + text.size(), number, base);
    }
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) Fail(key);
    return number;
  }
  int64_t Extent(std::string_view key, int64_t smallest) {
    const auto number = Parse<int64_t>(key, Text(key));
    if (number < smallest) Fail(key);
    return number;
  }
  bool Flag(std::string_view key) {
    const std::string_view text = Text(key);
    if (text != "0" && text != "1") Fail(key);
    return text == "1";
  }
  template <typename Names, typename NameOf>
  size_t OneOf(std::string_view key, const Names& names, const NameOf& name_of) {
    const std::string_view text = Text(key);
    for (size_t i = 0; i < std::size(names); ++i) {
      if (name_of(names[i]) == text) return i;
    }
    Fail(key);
    return 0;
  }
  DType Type(std::string_view key);
  // Parses "a,b,c", which must be exactly `count` numbers.
  template <typename Number>
  std::vector<Number> List(std::string_view key, std::string_view text, size_t count, int base) {
    std::vector<Number> numbers;
    for (const absl::string_view part : absl::StrSplit(ToAbsl(text), ',')) {
      numbers.push_back(Parse<Number>(key, ToStd(part), base));
    }
    if (numbers.size() != count) Fail(key);
    numbers.resize(count);
    return numbers;
  }
  void Fail(std::string_view key) {
    if (wrong_.empty()) wrong_ = key;
  }
  // The key of the first wrong field, or the first surplus field; empty if all fields were right.
  std::string wrong() const {
    if (!wrong_.empty()) return wrong_;
    return at_ < fields_.size() ? fields_[at_] : "";
  }

 private:
  std::vector<std::string> fields_;
  size_t at_ = 0;
  std::string wrong_;
};

// The lines before the plans.
std::string PlanTextHeader(const PlanFormat& format, const PlanPlatform& platform);

// Calls `read` for each plan with its fields and the note after its #. Returns StorageError with
// `path`, line and field if the text does not have this format or `read` found a wrong field.
StatusOr<PlanPlatform> ParsePlanText(
    const PlanFormat& format, std::string_view text, std::string_view path,
    const std::function<void(PlanFields& fields, std::string note)>& read);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_PLAN_TEXT_H_
