// metrics_golden.h - what sacreBLEU says about the segments of golden/metrics.json.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_METRICS_METRICS_GOLDEN_H_
#define DTRAIN_TESTS_METRICS_METRICS_GOLDEN_H_

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/tests_directory.h"

namespace dtrain {

inline const nlohmann::json& MetricsGolden() {
  static const nlohmann::json golden = [] {
    std::ifstream file(testing::GoldenPath("metrics.json"));
    REQUIRE(file.good());
    return nlohmann::json::parse(file);
  }();
  return golden;
}

struct GoldenLines {
  std::vector<std::string> hypotheses;
  std::vector<std::string> references;
  std::vector<std::string> second_references;
};

inline GoldenLines ReadGoldenLines() {
  GoldenLines lines;
  for (const nlohmann::json& segment : MetricsGolden()["segments"]) {
    lines.hypotheses.push_back(segment["hypothesis"]);
    lines.references.push_back(segment["reference"]);
    lines.second_references.push_back(segment["second_reference"]);
  }
  return lines;
}

struct WmtSystem {
  std::string name;
  std::vector<std::string> hypotheses;
  std::vector<std::string> references;
  double bleu = 0;
};

inline std::vector<std::string> ReadTestLines(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Outputs of WMT17 systems and their published scores; empty, with a word, where they are absent.
inline std::vector<WmtSystem> ReadWmtSystems() {
  const auto folder = testing::SharedPath("data/vectors/sacrebleu_wmt17_ende");
  if (!folder) return {};
  std::ifstream file(*folder / "expected.json");
  std::vector<WmtSystem> systems;
  const std::vector<std::string> references = ReadTestLines(*folder / "reference.txt");
  const nlohmann::json golden = nlohmann::json::parse(file);
  for (const auto& [name, expected] : golden["systems"].items()) {
    systems.push_back({name, ReadTestLines(*folder / (name + ".txt")), references, 0});
    systems.back().bleu = expected["bleu_mteval13a"];
  }
  return systems;
}

}  // namespace dtrain

#endif  // DTRAIN_TESTS_METRICS_METRICS_GOLDEN_H_
