// chrf_test.cc - chrF against sacreBLEU's own results.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/metrics/chrf.h"

#include "metrics/metrics_golden.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("corpus chrF equals sacreBLEU's") {
  const GoldenLines lines = ReadGoldenLines();
  for (const nlohmann::json& expected : MetricsGolden()["corpus"]) {
    std::vector<std::vector<std::string>> references = {lines.references};
    if (expected["num_references"] == 2) references.push_back(lines.second_references);
    ChrfOptions options{.lowercase = expected["lowercase"].get<bool>()};
    CHECK(ComputeChrf(*CountChrf(lines.hypotheses, references, options), options) ==
          Approx(expected["chrf"].get<double>()).epsilon(1e-12));
    CHECK(ChrfSignature(static_cast<int>(references.size()), options) ==
          expected["chrf_signature"].get<std::string>());
    options.eps_smoothing = true;
    CHECK(ComputeChrf(*CountChrf(lines.hypotheses, references, options), options) ==
          Approx(expected["chrf_eps"].get<double>()).epsilon(1e-12));
  }
}

TEST_CASE("sentence chrF equals sacreBLEU's") {
  for (const nlohmann::json& segment : MetricsGolden()["segments"]) {
    const std::string hypothesis = segment["hypothesis"];
    const std::string reference = segment["reference"];
    INFO(hypothesis);
    CHECK(SentenceChrf(hypothesis, reference) ==
          Approx(segment["chrf"].get<double>()).epsilon(1e-12));
    CHECK(SentenceChrf(hypothesis, reference, {.lowercase = true}) ==
          Approx(segment["chrf_lc"].get<double>()).epsilon(1e-12));
  }
}

TEST_CASE("chrF3 of short strings has the published values") {
  const ChrfOptions eps{.eps_smoothing = true, .beta = 3};
  const ChrfOptions effective{.beta = 3};
  CHECK(SentenceChrf("aa", "ab", eps) == Approx(8.3333).epsilon(1e-5));
  CHECK(SentenceChrf("a", "a", eps) == Approx(16.6667).epsilon(1e-5));
  CHECK(SentenceChrf("a b c", "abc", eps) == Approx(50));
  CHECK(SentenceChrf("aa", "ab", effective) == Approx(25));
  CHECK(SentenceChrf("a b c", "abc", effective) == Approx(100));
  CHECK(SentenceChrf("", "reference", effective) == 0);
}

TEST_CASE("summed chrF statistics of parts give the corpus' statistics") {
  const GoldenLines lines = ReadGoldenLines();
  const std::vector<std::vector<std::string>> all = {lines.references};
  ChrfStatistics sum;
  for (size_t i = 0; i < lines.hypotheses.size(); ++i) {
    const std::vector<std::vector<std::string>> one = {{lines.references[i]}};
    sum += *CountChrf(std::span(&lines.hypotheses[i], 1), one);
  }
  CHECK(sum == *CountChrf(lines.hypotheses, all));
}

TEST_CASE("chrF refuses sets of unequal length with exit code 3") {
  const Status unequal = CorpusChrf(std::vector<std::string>{"a"}, {"a", "b"}).status();
  CHECK(unequal.code() == ExitCode::kData);
  CHECK(unequal.message() ==
        "chrF: 1 hypothesis lines but 2 lines in reference 1; give one line per segment");
}

}  // namespace
}  // namespace dtrain
