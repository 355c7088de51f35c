// csv_fuzz.cc - whatever the bytes, a CSV file is read, and its broken rows are named.
// SPDX-License-Identifier: Apache-2.0
#include "fuzz/delimited_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dtrain::DelimitedOptions options{.format = dtrain::RecordFormat::kCsv,
                                   .columns = {{"1"}, {"-1"}}};
  dtrain::FuzzTable(data, size, options);
  options.header = false;
  options.columns.push_back({"0"});
  dtrain::FuzzTable(data, size, options);
  return 0;
}
