// record_parser.h - records of a run from their text, whatever the text is.
// SPDX-License-Identifier: Apache-2.0
//
// None of these functions fails: what they cannot read they leave out, and say so.
#ifndef DTRAIN_REPORT_INTERNAL_RECORD_PARSER_H_
#define DTRAIN_REPORT_INTERNAL_RECORD_PARSER_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "dtrain/report/run_facts.h"

namespace dtrain::internal {

// A number of the object; NaN if there is none.
double NumberOf(const nlohmann::ordered_json& object, std::string_view name);
// A text of the object; "" if there is none. Bytes that are no UTF-8 become U+FFFD.
std::string TextOf(const nlohmann::ordered_json& object, std::string_view name);

struct StreamProblems {
  int64_t unread_lines = 0;
  bool is_cut = false;   // the last line has no end
  int64_t version = 0;   // in the first line; 0 if there is none
  int64_t repeated = 0;  // records of updates that were made again
};

// Calls `record` with each object of a stream of JSON lines, without the line of the schema.
StreamProblems ReadStream(std::string_view text,
                          const std::function<void(const nlohmann::ordered_json&)>& record);

// Records of updates that were made again after a resume replace the earlier ones.
StreamProblems ParseSteps(std::string_view text, std::vector<StepFacts>& steps);
StreamProblems ParseEvaluations(std::string_view text, std::vector<EvaluationFacts>& evaluations);
// Samples whose time does not rise are left out.
StreamProblems ParseHost(std::string_view text, std::vector<HostFacts>& samples);
StreamProblems ParsePhases(std::string_view text, std::vector<RankFacts>& phases);
StreamProblems ParseNorms(std::string_view text, std::vector<NormFacts>& norms);
StreamProblems ParseEvents(std::string_view text, std::vector<EventFacts>& events);

StatusFacts ParseStatus(std::string_view text);
std::vector<StartFacts> ParseStarts(std::string_view text);
// Values that are no texts are given as JSON.
Settings ParseEnvironment(std::string_view text);
std::optional<PreparationFacts> ParsePreparation(std::string_view text);
SampleFacts ParseSamples(std::string_view text);

// Seconds since 1970 of "2026-11-21T04:12:33.123Z"; NaN if it is no such time.
double ParseTime(std::string_view text);

}  // namespace dtrain::internal

#endif  // DTRAIN_REPORT_INTERNAL_RECORD_PARSER_H_
