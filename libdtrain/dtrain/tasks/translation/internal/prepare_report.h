// prepare_report.h - identifies the inputs of a prepared folder, and stores its report as JSON.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_INTERNAL_PREPARE_REPORT_H_
#define DTRAIN_TASKS_TRANSLATION_INTERNAL_PREPARE_REPORT_H_

#include <cstdint>
#include <map>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/data/internal/file_content.h"
#include "dtrain/tasks/translation/prepare.h"

namespace dtrain::internal {

// Everything the result depends on, by name: contents of the inputs, and options.
using PrepareIdentity = std::map<std::string, std::string>;

// Reads all inputs once and records their state in `files`. Returns DataError if an input is
// missing or cannot be read twice.
StatusOr<PrepareIdentity> ComputePrepareIdentity(const PrepareOptions& options, InputFiles& files);
// The part that needs no files: how text is cleaned and a vocabulary is learned.
PrepareIdentity DescribeOptions(const PrepareOptions& options);
uint64_t HashPrepareIdentity(const PrepareIdentity& identity);

// "bpe.vocab_size is 4000 there, 8000 now" for each difference; empty if there is none.
std::string DescribeDifferences(const PrepareIdentity& there, const PrepareIdentity& now);

std::string PrepareReportToJson(const PrepareReport& report, const PrepareIdentity& identity);

struct SavedPrepareReport {
  PrepareReport report;
  PrepareIdentity identity;
};
// Returns DataError if the text is not such a report.
StatusOr<SavedPrepareReport> PrepareReportFromJson(const std::string& json,
                                                   const std::string& path);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_TRANSLATION_INTERNAL_PREPARE_REPORT_H_
