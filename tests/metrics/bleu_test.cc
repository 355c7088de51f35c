// bleu_test.cc - BLEU against sacreBLEU's own results.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/metrics/bleu.h"

#include "metrics/metrics_golden.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("13a tokens equal sacreBLEU's") {
  CHECK(Tokenize13a("It's 3.14, not 3,14.") == "It's 3.14 , not 3,14 .");
  CHECK(Tokenize13a("Zu 5-6 Jahren: \"ja\" &quot;nein&quot; &amp;amp; <skipped>x") ==
        "Zu 5 - 6 Jahren : \" ja \" \" nein \" & amp ; x");
  CHECK(Tokenize13a("„Grüße“ – 10.000 € (ca.)") == "„Grüße“ – 10.000 € ( ca . )");
  CHECK(Tokenize13a("don't well-known a/b c_d e@f.de") ==
        "don't well-known a / b c _ d e @ f . de");
  CHECK(Tokenize13a("1990-91 kostet 5,- Euro...") == "1990 - 91 kostet 5 , - Euro . . .");
  CHECK(Tokenize13a("2.5.") == "2.5 .");
  CHECK(Tokenize13a("A-–B 7-up") == "A-–B 7 - up");
  CHECK(Tokenize13a("so-\ncalled\nlines") == "socalled lines");
  CHECK(Tokenize13a("") == "");
  for (const nlohmann::json& segment : MetricsGolden()["segments"]) {
    CHECK(Tokenize13a(segment["hypothesis"].get<std::string>()) ==
          segment["tokens"].get<std::string>());
  }
}

TEST_CASE("published BLEU scores come out to nine digits") {
  const std::vector<std::string> hypotheses = {"The dog bit the man.", "It wasn't surprising.",
                                               "The man had just bitten him."};
  const std::vector<std::vector<std::string>> references = {
      {"The dog bit the man.", "It was not unexpected.", "The man bit him first."},
      {"The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."}};
  const BleuScore one = *CorpusBleu(hypotheses, references[0]);
  CHECK(one.score == Approx(45.06750632106114).epsilon(1e-12));
  CHECK(one.statistics.counts == std::array<int64_t, 10>{17, 17, 12, 6, 4, 3, 17, 14, 11, 8});
  const BleuScore two = *CorpusBleu(hypotheses, references);
  CHECK(two.score == Approx(48.530827009929865).epsilon(1e-12));
  CHECK(two.Verbose() ==
        "82.4/50.0/45.5/37.5 (BP = 0.943 ratio = 0.944 hyp_len = 17 ref_len = 18)");
  CHECK(CorpusBleu(std::vector<std::string>{"Ein Hund läuft."}, {"Ein Hund rennt."})->score ==
        Approx(35.35533905932737).epsilon(1e-12));
}

TEST_CASE("corpus BLEU equals sacreBLEU's") {
  const GoldenLines lines = ReadGoldenLines();
  for (const nlohmann::json& expected : MetricsGolden()["corpus"]) {
    std::vector<std::vector<std::string>> references = {lines.references};
    if (expected["num_references"] == 2) references.push_back(lines.second_references);
    const BleuOptions options{.lowercase = expected["lowercase"].get<bool>()};
    const BleuScore bleu = *CorpusBleu(lines.hypotheses, references, options);
    CHECK(bleu.score == Approx(expected["bleu"].get<double>()).epsilon(1e-12));
    CHECK(bleu.Format() == expected["bleu_text"].get<std::string>());
    CHECK(BleuSignature(static_cast<int>(references.size()), options) ==
          expected["bleu_signature"].get<std::string>());
  }
}

TEST_CASE("sentence BLEU equals sacreBLEU's") {
  for (const nlohmann::json& segment : MetricsGolden()["segments"]) {
    const std::string hypothesis = segment["hypothesis"];
    const std::string reference = segment["reference"];
    INFO(hypothesis);
    CHECK(SentenceBleu(hypothesis, reference).score ==
          Approx(segment["bleu"].get<double>()).epsilon(1e-12));
    CHECK(SentenceBleu(hypothesis, reference, true).score ==
          Approx(segment["bleu_lc"].get<double>()).epsilon(1e-12));
  }
}

TEST_CASE("summed statistics of parts give the corpus' BLEU") {
  const GoldenLines lines = ReadGoldenLines();
  const auto count = [&](size_t begin, size_t end) {
    const std::vector<std::string> hypotheses(lines.hypotheses.begin() + begin,
                                              lines.hypotheses.begin() + end);
    const std::vector<std::vector<std::string>> references = {
        {lines.references.begin() + begin, lines.references.begin() + end}};
    return *CountBleu(hypotheses, references);
  };
  BleuStatistics sum = count(0, 7);
  sum += count(7, lines.hypotheses.size());
  CHECK(sum == count(0, lines.hypotheses.size()));
}

TEST_CASE("BLEU of nothing is 0") {
  CHECK(ComputeBleu({}).score == 0);
  CHECK(CorpusBleu(std::vector<std::string>{""}, {"a b c d"})->score == 0);
  CHECK(CorpusBleu(std::vector<std::string>{"x"}, {"y"})->score == 0);
  // Too short for order 4: no score without effective order.
  CHECK(CorpusBleu(std::vector<std::string>{"a b"}, {"a b"})->score == 0);
  CHECK(SentenceBleu("a b", "a b").score == Approx(100));
}

TEST_CASE("BLEU refuses sets of unequal length with exit code 3") {
  const Status unequal = CorpusBleu(std::vector<std::string>{"a", "b"}, {"a"}).status();
  CHECK(unequal.code() == ExitCode::kData);
  CHECK(unequal.message() ==
        "BLEU: 2 hypothesis lines but 1 lines in reference 1; give one line per segment");
  const Status empty = CorpusBleu(std::vector<std::string>{}, std::vector<std::string>{}).status();
  CHECK(empty.code() == ExitCode::kData);
}

// Letters as token ids: 'a' is 97.
double TokenBleu(const std::vector<std::pair<std::string, std::string>>& pairs,
                 const TokenBleuOptions& options = {}) {
  BleuStatistics sum;
  for (const auto& [hypothesis, reference] : pairs) {
    sum += CountTokenBleu(std::vector<int32_t>(hypothesis.begin(), hypothesis.end()),
                          std::vector<int32_t>(reference.begin(), reference.end()), options);
  }
  return ComputeTokenBleu(sum);
}

TEST_CASE("token BLEU counts as NLTK 3.2.5 does") {
  CHECK(TokenBleu({{"abcdef", "abcdeg"}, {"xy", "xz"}}) == .6223);
  CHECK(TokenBleu({{"abcdef", "abcdeg"}, {"", "xz"}}) == .4405);
  CHECK(TokenBleu({{"abcdef", "abcdeg"}}) == .7598);
  CHECK(TokenBleu({{"abcd", "abcd"}}) == 1);
  CHECK(TokenBleu({{"abc", "abc"}}) == 0);
  CHECK(TokenBleu({{"", "abc"}}) == 0);
}

TEST_CASE("token BLEU ends at the end symbol and drops padding and start") {
  const TokenBleuOptions options{.end_id = '.', .padding_id = '_', .start_id = '<'};
  CHECK(TokenBleu({{"<abc_def.xyz", "abcdeg.__"}}, options) == .7598);
}

TEST_CASE("BLEU of four WMT17 systems is the published one") {
  for (const WmtSystem& system : ReadWmtSystems()) {
    const BleuScore bleu = *CorpusBleu(system.hypotheses, system.references);
    INFO(system.name);
    CHECK(std::abs(bleu.score - system.bleu) < 0.005);
  }
}

}  // namespace
}  // namespace dtrain
