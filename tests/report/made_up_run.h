// made_up_run.h - run directories that tests write by hand.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_REPORT_MADE_UP_RUN_H_
#define DTRAIN_TESTS_REPORT_MADE_UP_RUN_H_

#include <cmath>
#include <filesystem>
#include <string>

#include "dtrain/runs/metrics_log.h"
#include "dtrain/runs/record_names.h"
#include "testing/file_testing.h"

namespace dtrain {

// A run of 400 updates of a translator whose records a test may change before it writes them.
class MadeUpRun {
 public:
  explicit MadeUpRun(const std::string& path) : path_(path) {
    std::filesystem::create_directories(path + "/metrics");
    WriteTestFile(path + "/STATUS",
                  "state done\nexit_code 0\nstep 400\nhost node7\npid 1\n"
                  "heartbeat 2026-01-31T12:10:00.500Z\n");
    WriteTestFile(path + "/cmdline.txt", "2026-01-31T12:00:00.000Z  nmt_train --run_dir=r\n");
    WriteTestFile(path + "/env.json",
                  R"({"program":"nmt_train","ranks":2,"cores":4,"host":"node7","device":"cpu"})");
    WriteTestFile(path + "/config.textproto",
                  "optimizer {\n  schedule: inverse_sqrt\n  learning_rate: 0.001\n"
                  "  warmup_steps: 40\n  clip_norm: 1\n}\ntrainer {\n  log_every: 10\n"
                  "  best_metric: bleu\n  max_steps: 400\n}\ndata {\n  source_language: \"en\"\n"
                  "  target_language: \"de\"\n}\n");
    for (int step = 10; step <= 400; step += 10) steps += Step(step);
    for (int step = 40; step <= 400; step += 40) evaluations += Evaluation(step);
    events = R"({"step":0,"kind":"start","text":"ranks: 2"})"
             "\n";
    events +=
        R"({"step":400,"kind":"checkpoint","text":"r/ckpt/step-00000400: 21.9 MiB in 0.25 s"})"
        "\n";
    events += R"({"step":400,"kind":"stop","text":"the run is complete: max_steps"})"
              "\n";
  }

  // A loss that falls like a power of the updates.
  static double Loss(double step) { return 1.5 + 20.0 * std::pow(step, -0.5); }

  static std::string Step(int step, double loss) {
    return JsonRecord()
               .Set(recorded::kStep, step)
               .Set(recorded::kEpoch, step / 100.0)
               .Set(recorded::kLoss, loss)
               .Set(recorded::kNll, loss - 0.2)
               .Set(recorded::kLearningRate, 0.001)
               .Set(recorded::kGradientNorm, 0.5)
               .Set(recorded::kSkipped, 0)
               .Set(recorded::kTargetTokens, 1000 * step)
               .Set(recorded::kStepMs, 100.0)
               .Set(recorded::kDataShare, 0.01)
               .Set(recorded::kCommShare, 0.02)
               .Set(recorded::kTargetTokensPerSecond, 10000.0)
               .Set(recorded::kSourceTokensPerSecond, 9000.0)
               .Set(recorded::kSeconds, 0.1 * step)
               .ToString() +
           "\n";
  }
  static std::string Step(int step) { return Step(step, Loss(step)); }

  static std::string Evaluation(int step) {
    const double nll = Loss(step);
    return JsonRecord()
               .Set(recorded::kStep, step)
               .Set(recorded::kLoss, nll + 0.3)
               .Set(recorded::kNll, nll)
               .Set("bleu", 60.0 - 12.0 * nll)
               .Set(recorded::kIsBest, true)
               .Set(recorded::kSeconds, 0.5)
               .ToString() +
           "\n";
  }

  // Writes the records and returns the path of the run.
  const std::string& Write() const {
    const auto write = [&](std::string_view stream, const std::string& records) {
      WriteTestFile(RecordsPath(path_, stream), "{\"schema\":\"dtrain." + std::string(stream) +
                                                    "\",\"version\":1}\n" + records);
    };
    write(recorded::kSteps, steps);
    write(recorded::kEvaluations, evaluations);
    write(recorded::kEvents, events);
    return path_;
  }

  std::string steps = {};
  std::string evaluations = {};
  std::string events = {};

 private:
  std::string path_;
};

}  // namespace dtrain

#endif  // DTRAIN_TESTS_REPORT_MADE_UP_RUN_H_
