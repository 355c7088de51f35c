// run_records_fuzz.cc - whatever the files of a run hold, they are read without a fault.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string_view>

#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"
#include "dtrain/report/internal/record_parser.h"

namespace dtrain {
namespace {

void FuzzSteps(std::string_view text) {
  std::vector<StepFacts> steps;
  internal::ParseSteps(text, steps);
  int64_t before = 0;
  double seconds = 0.0;
  for (const StepFacts& step : steps) {
    DT_CHECK_LT(before, step.step);
    DT_CHECK(step.seconds >= seconds);
    DT_CHECK(step.target_tokens >= 0.0);
    before = step.step;
    seconds = step.seconds;
  }
}

void FuzzEvaluations(std::string_view text) {
  std::vector<EvaluationFacts> evaluations;
  internal::ParseEvaluations(text, evaluations);
  int64_t before = -1;
  for (const EvaluationFacts& evaluation : evaluations) {
    DT_CHECK_LT(before, evaluation.step);
    before = evaluation.step;
    for (const auto& metric : evaluation.metrics) DT_CHECK(IsValidUtf8(metric.first));
  }
}

void FuzzHost(std::string_view text) {
  std::vector<HostFacts> samples;
  internal::ParseHost(text, samples);
  for (size_t i = 1; i < samples.size(); ++i) {
    DT_CHECK(samples[i].time > samples[i - 1].time);
  }
}

void FuzzPhases(std::string_view text) {
  std::vector<RankFacts> phases;
  internal::ParsePhases(text, phases);
  int64_t before = 0;
  for (const RankFacts& record : phases) {
    DT_CHECK_LT(before, record.step);
    DT_CHECK(!record.ranks.empty());
    before = record.step;
    for (const auto& rank : record.ranks) {
      for (const double seconds : rank) DT_CHECK(seconds >= 0.0);
    }
  }
}

void FuzzNorms(std::string_view text) {
  std::vector<NormFacts> norms;
  internal::ParseNorms(text, norms);
  for (const NormFacts& record : norms) {
    for (const NormFacts::Group& group : record.groups) DT_CHECK(IsValidUtf8(group.name));
  }
}

void CheckTexts(const Settings& settings) {
  for (const auto& [name, value] : settings) {
    DT_CHECK(IsValidUtf8(name));
    DT_CHECK(IsValidUtf8(value));
  }
}

void FuzzOthers(std::string_view text) {
  std::vector<EventFacts> events;
  internal::ParseEvents(text, events);
  for (const EventFacts& event : events) DT_CHECK(IsValidUtf8(event.text));
  CheckTexts(ParseSettings(text));
  CheckTexts(internal::ParseEnvironment(text));
  internal::ParsePreparation(text);
  const StatusFacts status = internal::ParseStatus(text);
  DT_CHECK(IsValidUtf8(status.message));
  for (const StartFacts& start : internal::ParseStarts(text)) DT_CHECK(IsValidUtf8(start.command));
  const SampleFacts samples = internal::ParseSamples(text);
  for (const auto& row : samples.rows) DT_CHECK_EQ(row.size(), samples.columns.size());
  internal::ParseTime(text);
}

}  // namespace
}  // namespace dtrain

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  dtrain::FuzzSteps(text);
  dtrain::FuzzEvaluations(text);
  dtrain::FuzzHost(text);
  dtrain::FuzzPhases(text);
  dtrain::FuzzNorms(text);
  dtrain::FuzzOthers(text);
  return 0;
}
