// planned_memory.h - what a run of a program of BERT said of its memory, and an estimate of it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_INTEGRATION_PLANNED_MEMORY_H_
#define DTRAIN_TESTS_INTEGRATION_PLANNED_MEMORY_H_

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "dtrain/config/config.h"
#include "planning/estimate.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain::testing {

// That the estimate of the configuration in a run directory, whose updates are so many tokens, is
// the run's own plan for texts of its lengths, to the word, and what it took, to a tenth.
template <typename Config>
void CheckEstimateOfRun(const std::string& run_dir) {
  std::string planned;
  double mean = 0.0;
  double deviation = 0.0;
  double mebibytes = 0.0;
  std::istringstream lines(ReadTestFile(run_dir + "/metrics/events.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const std::string text = nlohmann::json::parse(line).value("text", "");
    std::sscanf(text.c_str(), "activations took %lf MiB", &mebibytes);
    const size_t lengths = text.find("; texts have ");
    if (lengths == std::string::npos) continue;
    planned = text.substr(0, lengths);
    std::sscanf(text.c_str() + lengths,
                "; texts have %lf tokens on average, with a standard deviation of %lf", &mean,
                &deviation);
  }
  Config config;
  REQUIRE(MergeConfigFile(run_dir + "/config.textproto", config).ok());
  const StatusOr<Estimate> estimate =
      EstimateRun(config, {.source_length = mean, .length_deviation = deviation});
  REQUIRE(std::string(estimate.status().message()) == "");
  CHECK(estimate->workload.notes.empty());
  CHECK(estimate->plan.Describe(estimate->workload.planned_batch) == planned);
  CHECK(static_cast<double>(estimate->memory.activations) / (1 << 20) ==
        Approx(mebibytes).epsilon(0.1));
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_INTEGRATION_PLANNED_MEMORY_H_
