// row_values.cc - columns as tensors of a safetensors file, which many programs read.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/row_values.h"

#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/formats/safetensors.h"

namespace dtrain {
namespace {

constexpr char kRows[] = "rows";
constexpr char kStep[] = "step";

template <typename T>
std::vector<T> Copied(const NamedTensor& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

void RowValues::AddRatio(std::string_view name, std::vector<float> sums,
                         std::vector<float> counts) {
  columns.push_back({.name = absl::StrCat(ToAbsl(name), ".sum"), .values = std::move(sums)});
  columns.push_back({.name = absl::StrCat(ToAbsl(name), ".count"), .values = std::move(counts)});
}

const RowValues::Column* RowValues::Find(std::string_view name) const {
  for (const Column& column : columns) {
    if (column.name != name) continue;
    return column.values.size() == rows.size() * static_cast<size_t>(column.width) ? &column
                                                                                   : nullptr;
  }
  return nullptr;
}

std::string RowValuesPath(const std::string& run, std::string_view which) {
  return absl::StrCat(run, "/metrics/rows-", ToAbsl(which), ".safetensors");
}

Status WriteRowValues(const std::string& path, const RowValues& values) {
  const auto count = static_cast<int64_t>(values.rows.size());
  std::vector<NamedTensor> tensors = {{.name = kRows,
                                       .dtype = DType::kInt32,
                                       .shape = {count},
                                       .data = std::as_bytes(std::span(values.rows))},
                                      {.name = kStep,
                                       .dtype = DType::kInt64,
                                       .shape = {1},
                                       .data = std::as_bytes(std::span(&values.step, 1))}};
  for (const RowValues::Column& column : values.columns) {
    tensors.push_back({.name = column.name,
                       .dtype = DType::kFloat32,
                       .shape = {count, column.width},
                       .data = std::as_bytes(std::span(column.values))});
  }
  return WriteSafetensors(path, tensors).status();
}

StatusOr<RowValues> ReadRowValues(const std::string& path) {
  DT_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  RowValues values;
  for (const NamedTensor& tensor : file.tensors()) {
    if (tensor.name == kRows && tensor.dtype == DType::kInt32) {
      values.rows = Copied<int32_t>(tensor);
    } else if (tensor.name == kStep && tensor.dtype == DType::kInt64 && tensor.bytes() == 8) {
      values.step = Copied<int64_t>(tensor).front();
    } else if (tensor.dtype == DType::kFloat32 && tensor.shape.size() == 2) {
      values.columns.push_back(
          {.name = tensor.name, .width = tensor.shape[1], .values = Copied<float>(tensor)});
    }
  }
  return values;
}

}  // namespace dtrain
