// jsonl_fuzz.cc - lines of JSON are accepted and decoded as another JSON library does.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "fuzz/delimited_fuzz.h"

namespace dtrain {
namespace {

// What our reader takes and the other does not: numbers beyond a double.
bool MayHoldHugeNumber(const std::string& line) {
  return line.size() > 250 || line.find_first_of("eE") != std::string::npos;
}

void CompareLine(const std::string& line, const FuzzRow& row) {
  if (row.problem == RowProblem::kTooLong || line.starts_with("\xEF\xBB\xBF")) return;
  if (row.description.ends_with("nested too deep")) return;
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (row.problem == RowProblem::kBadJson) {
    // The other takes a NUL for the end of the text.
    if (line.find('\0') != std::string::npos) return;
    DT_CHECK(!json.is_object()) << "refused: " << line;
    return;
  }
  if (json.is_discarded() && MayHoldHugeNumber(line)) return;
  DT_CHECK(json.is_object()) << "accepted: " << line;
  if (row.problem != RowProblem::kNone) return;
  const auto found = json.find("a");
  const bool is_absent = found == json.end() || found->is_null();
  DT_CHECK_EQ(row.fields[0].has_value(), !is_absent);
  if (!is_absent && found->is_string()) {
    DT_CHECK(*row.fields[0] == found->get<std::string>()) << line;
  }
}

}  // namespace
}  // namespace dtrain

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dtrain::DelimitedOptions options{.format = dtrain::RecordFormat::kJsonl,
                                         .columns = {{"a", false}, {"b"}}};
  const auto rows = dtrain::FuzzTable(data, size, options);
  std::string text(reinterpret_cast<const char*>(data), size);
  if (!rows || !dtrain::IsValidUtf8(text)) return 0;
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  size_t row = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos && line.size() <= 300) continue;
    DT_CHECK_LT(row, rows->size());
    dtrain::CompareLine(line, (*rows)[row++]);
  }
  DT_CHECK_EQ(row, rows->size());
  return 0;
}
