// tsv_fuzz.cc - whatever the bytes, a TSV file is cut at its tabs and newlines and nowhere else.
// SPDX-License-Identifier: Apache-2.0
#include "fuzz/delimited_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dtrain::DelimitedOptions options{.format = dtrain::RecordFormat::kTsv,
                                   .columns = {{"1"}, {"-1"}}};
  dtrain::FuzzTable(data, size, options);
  options.header = false;
  const auto rows = dtrain::FuzzTable(data, size, options);
  if (!rows) return 0;
  for (const dtrain::FuzzRow& row : *rows) {
    for (const auto& field : row.fields) {
      DT_CHECK(!field || field->find_first_of("\t\n") == std::string::npos) << *field;
    }
  }
  return 0;
}
