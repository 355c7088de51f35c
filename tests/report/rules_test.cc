// rules_test.cc - for every rule runs that trigger it, and runs that do not.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/report/learning_rules.h"
#include "dtrain/report/speed_rules.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Every verdict says how sure it is, and every one that is not good or unknown gives advice, unless
// there is nothing to do.
void CheckVerdict(const Verdict& verdict, VerdictLevel level, const std::string& part = "",
                  bool needs_advice = true) {
  INFO(verdict.id << ": " << verdict.title << " | " << verdict.text << " | " << verdict.change);
  CHECK(Name(verdict.level) == Name(level));
  CHECK_THAT(verdict.title + " " + verdict.text + " " + verdict.change, Catch::Contains(part));
  CHECK_FALSE(verdict.id.empty());
  CHECK_FALSE(verdict.text.empty());
  CHECK((verdict.sure == Sureness::kCannotTell) == (verdict.level == VerdictLevel::kUnknown));
  const bool is_fine =
      verdict.level == VerdictLevel::kGood || verdict.level == VerdictLevel::kUnknown;
  if (is_fine || !needs_advice) return;
  CHECK_FALSE(verdict.change.empty());
}

double Uniform(RandomStream& random) { return 2.0 * random.NextUniform() - 1.0; }

using Law = std::function<double(double)>;

TrainedInput Training(const Law& loss, int evaluations, double metric_noise, double loss_noise) {
  TrainedInput input{.metric = {.name = "BLEU"},
                     .is_noise_measured = true,
                     .loss_noise = loss_noise,
                     .metric_noise = metric_noise,
                     .longer = "trainer.max_time=5m"};
  for (int i = 1; i <= evaluations; ++i) {
    const double tokens = 1e7 * i / evaluations;
    input.losses.push_back({tokens, loss(tokens)});
    input.metrics.push_back({tokens, 60.0 - 20.0 * loss(tokens)});
  }
  return input;
}

double SlowLaw(double x) { return 1.5 + 300.0 * std::pow(x, -0.35); }
double FastLaw(double x) { return 1.5 + 3e8 * std::pow(x, -1.6); }

TEST_CASE("a loss that still falls is not fully trained, one that has fallen is") {
  TrainedInput slow = Training(SlowLaw, 18, 0.3, 0.002);
  CheckVerdict(JudgeTrained(slow), VerdictLevel::kWarn, "Run the same command again with trainer");
  slow.rate_falls_to_zero = true;
  CheckVerdict(JudgeTrained(slow), VerdictLevel::kWarn, "Start anew with trainer.max_time=5m");
  CheckVerdict(JudgeTrained(Training(FastLaw, 18, 0.3, 0.002)), VerdictLevel::kGood,
               "less than two evaluations differ by chance");
  slow.metrics.clear();
  slow.metric = {.name = "of the dev loss", .decimals = 3};
  slow.metric_noise = 0.002;
  CheckVerdict(JudgeTrained(slow), VerdictLevel::kWarn, "of the dev loss");
}

TEST_CASE("what is said of the end of a falling rate is said only of a run that got there") {
  TrainedInput input = Training(SlowLaw, 18, 0.3, 0.002);
  input.rate_falls_to_zero = true;
  CHECK_THAT(JudgeTrained(input).evidence, Catch::Contains("The flat end is left out"));
  CHECK_THAT(JudgeTrained(input).change, Catch::Contains("the rate has reached zero"));
  input.is_complete = false;
  CHECK_THAT(JudgeTrained(input).evidence, !Catch::Contains("flat end"));
  CHECK(JudgeTrained(input).change == "Let it go on to its limit.");
  input.rate_falls_to_zero = false;
  CHECK(JudgeTrained(input).change == "Let it go on to its limit.");
}

TEST_CASE("a gain and a slope that may both be negative are no sign of a gain") {
  TrainedInput input{.metric = {.name = "BLEU"}, .loss_noise = 0.05, .metric_noise = 0.1};
  RandomStream random({.seed = 11});
  for (int i = 1; i <= 18; ++i) {
    input.losses.push_back({1e6 * i, 2.0 + 0.05 * Uniform(random)});
    input.metrics.push_back({1e6 * i, 20.0 + Uniform(random)});
  }
  CheckVerdict(JudgeTrained(input), VerdictLevel::kNote, "Half as long again might bring 0.0 to");
}

TEST_CASE("a gain about as large as the noise is nearly fully trained, and a hint") {
  const auto law = [](double x) { return 1.5 + 3e5 * std::pow(x, -0.95); };
  const Verdict verdict = JudgeTrained(Training(law, 18, 1.0, 0.03));
  CheckVerdict(verdict, VerdictLevel::kNote, "might bring");
  CHECK(verdict.sure == Sureness::kHint);
}

TEST_CASE("whether it is fully trained cannot be told from few evaluations, or without noise") {
  CheckVerdict(JudgeTrained(Training(SlowLaw, 3, 0.3, 0.002)), VerdictLevel::kUnknown,
               "at least 4");
  TrainedInput noiseless = Training(SlowLaw, 18, kNaN, 0.002);
  CheckVerdict(JudgeTrained(noiseless), VerdictLevel::kUnknown);
  CheckVerdict(JudgeTrained({}), VerdictLevel::kUnknown);
}

TEST_CASE("an estimated noise makes the verdict a hint") {
  TrainedInput slow = Training(SlowLaw, 18, 0.3, 0.002);
  CHECK(JudgeTrained(slow).sure == Sureness::kLikely);
  slow.is_noise_measured = false;
  CHECK(JudgeTrained(slow).sure == Sureness::kHint);
  CHECK_THAT(JudgeTrained(slow).evidence, Catch::Contains("estimated from the curve"));
}

std::vector<CurvePoint> PerThousand(const Law& y) {
  std::vector<CurvePoint> points;
  for (int i = 1; i <= 10; ++i) points.push_back({1000.0 * i, y(i)});
  return points;
}

TEST_CASE("overfitting is a dev loss that rises while the training sentences' loss falls") {
  OverfitInput input{
      .dev = PerThousand([](double k) { return 2.0 + 0.02 * (k - 5.0) * (k - 5.0); }),
      .training = PerThousand([](double k) { return 1.9 - 0.05 * k; }),
      .dev_noise = 0.01,
      .training_noise = 0.01};
  const Verdict bad = JudgeOverfitting(input);
  CheckVerdict(bad, VerdictLevel::kBad, "since update 5,000 while the loss on training");
  CHECK(bad.sure == Sureness::kMeasured);
  CHECK_THAT(bad.change, Catch::EndsWith("fewer passes."));
  input.has_patience = true;
  CHECK_THAT(JudgeOverfitting(input).change, Catch::EndsWith(", or trainer.early_stop.patience."));

  OverfitInput unknown = input;
  unknown.training.clear();
  CheckVerdict(JudgeOverfitting(unknown), VerdictLevel::kBad, "5,000");
  CHECK(JudgeOverfitting(unknown).sure == Sureness::kLikely);

  OverfitInput confident = input;
  confident.metric = PerThousand([](double k) { return k; });
  CheckVerdict(JudgeOverfitting(confident), VerdictLevel::kNote, "Overconfident");

  OverfitInput unstable = input;
  unstable.training = PerThousand([](double k) { return 1.9 + 0.05 * k; });
  CheckVerdict(JudgeOverfitting(unstable), VerdictLevel::kWarn, "everywhere");

  OverfitInput noisy = input;
  noisy.dev_noise = 0.5;
  CheckVerdict(JudgeOverfitting(noisy), VerdictLevel::kGood, "less than its noise");

  OverfitInput falling = input;
  falling.dev = PerThousand([](double k) { return 3.0 - 0.1 * k; });
  CheckVerdict(JudgeOverfitting(falling), VerdictLevel::kGood, "a gap of 0.60");
  falling.training.clear();
  CHECK(JudgeOverfitting(falling).sure == Sureness::kLikely);

  input.dev.resize(1);
  CheckVerdict(JudgeOverfitting(input), VerdictLevel::kUnknown, "no second evaluation");
}

StabilityInput Losses(const std::vector<double>& losses, double skipped = 0.0) {
  StabilityInput input{.losses = losses, .skipped = skipped, .updates = 4000};
  for (size_t i = 0; i < losses.size(); ++i) input.steps.push_back(10 * (static_cast<int>(i) + 1));
  return input;
}

TEST_CASE("spikes, divergence, broken losses and skipped updates are told apart") {
  RandomStream random({.seed = 7});
  std::vector<double> calm;
  for (int i = 0; i < 400; ++i) calm.push_back(4.0 - 0.005 * i + 0.05 * Uniform(random));
  CheckVerdict(JudgeStability(Losses(calm)), VerdictLevel::kGood, "No loss spike, no skipped");
  CheckVerdict(JudgeStability(Losses(calm, 2)), VerdictLevel::kGood, "normal for fp16");
  CheckVerdict(JudgeStability(Losses(calm, 80)), VerdictLevel::kWarn, "80 of 4,000");

  std::vector<double> spiky = calm;
  spiky[200] += 1.5;
  CheckVerdict(JudgeStability(Losses(spiky)), VerdictLevel::kNote, "1 time the loss jumped");
  CheckVerdict(JudgeStability(Losses(spiky)), VerdictLevel::kNote, "first at update 2,010");
  for (const size_t place : {100u, 150u, 250u, 300u, 350u}) spiky[place] += 1.5;
  CheckVerdict(JudgeStability(Losses(spiky)), VerdictLevel::kWarn, "6 times");

  std::vector<double> risen = calm;
  for (size_t i = 300; i < risen.size(); ++i) risen[i] += 1.5;
  CheckVerdict(JudgeStability(Losses(risen)), VerdictLevel::kBad, "diverged");

  std::vector<double> broken = calm;
  broken.back() = kNaN;
  CheckVerdict(JudgeStability(Losses(broken)), VerdictLevel::kBad, "diverged");
  std::vector<double> hole = calm;
  for (size_t i = 100; i < 103; ++i) hole[i] = std::numeric_limits<double>::infinity();
  CheckVerdict(JudgeStability(Losses(hole)), VerdictLevel::kWarn, "first at update 1,010");
  CheckVerdict(JudgeStability(Losses({})), VerdictLevel::kUnknown);
  CheckVerdict(JudgeStability(Losses({kNaN, kNaN})), VerdictLevel::kBad);
}

TEST_CASE("few noisy records are no divergence") {
  RandomStream random({.seed = 8});
  std::vector<double> losses;
  for (int i = 0; i < 75; ++i) losses.push_back(0.25 + std::abs(0.15 * Uniform(random)));
  CheckVerdict(JudgeStability(Losses(losses)), VerdictLevel::kGood);
}

TEST_CASE("clipping most updates is worth knowing, clipping all is to be changed") {
  const std::vector<double> low(300, 0.5);
  const std::vector<double> high(300, 1.5);
  std::vector<double> mixed = high;
  for (size_t i = 0; i < mixed.size(); i += 3) mixed[i] = 0.5;
  CheckVerdict(JudgeClipping(low, 1.0), VerdictLevel::kGood, "rarely");
  CheckVerdict(JudgeClipping(mixed, 1.0), VerdictLevel::kNote, "67 %");
  CheckVerdict(JudgeClipping(high, 1.0), VerdictLevel::kWarn, "optimizer.clip_norm=3");
  CheckVerdict(JudgeClipping(high, 0.0), VerdictLevel::kGood, "off");
  CheckVerdict(JudgeClipping(std::vector<double>(19, 1.5), 1.0), VerdictLevel::kUnknown);
  CHECK(JudgeClipping(std::vector<double>(50, 0.5), 1.0).sure == Sureness::kLikely);
  // As a setting takes it.
  CHECK_THAT(JudgeClipping(std::vector<double>(300, 10.2), 1.0).change,
             Catch::StartsWith("optimizer.clip_norm=20, or"));
  CHECK_THAT(JudgeClipping(std::vector<double>(300, 0.1733), 0.1).change,
             Catch::StartsWith("optimizer.clip_norm=0.35, or"));
  CHECK_THAT(JudgeClipping(std::vector<double>(300, 1234.0), 1.0).change,
             Catch::StartsWith("optimizer.clip_norm=2500, or"));
  CHECK_THAT(JudgeClipping(std::vector<double>(300, 1234.0), 1.0).text,
             Catch::Contains("median norm 1,234"));
}

TEST_CASE("a long warm-up and a rate that never fell are noted") {
  CheckVerdict(JudgeRate({.peak = 4e-3, .last = 0.0, .warmup_share = 0.1}), VerdictLevel::kGood);
  CheckVerdict(JudgeRate({.peak = 1e-3, .last = 0.0, .warmup_share = 0.86}), VerdictLevel::kNote,
               "86 % of the updates were warm-up");
  CheckVerdict(JudgeRate({.peak = 7e-4, .last = 4e-4, .is_complete = false}), VerdictLevel::kNote,
               "before the rate fell");
  CheckVerdict(JudgeRate({.peak = 7e-4, .last = 1e-4, .is_complete = false}), VerdictLevel::kGood);
  CheckVerdict(JudgeRate({}), VerdictLevel::kUnknown);
}

TEST_CASE("a score of a part of the dev set, or of few sentences, is noted") {
  CheckVerdict(JudgeEvaluatedPart({.metric = "BLEU", .evaluated = 300, .whole = 1112}),
               VerdictLevel::kNote, "300 of 1,112");
  CheckVerdict(JudgeEvaluatedPart({.metric = "BLEU", .evaluated = 300, .whole = 300}),
               VerdictLevel::kNote, "only 300");
  CheckVerdict(JudgeEvaluatedPart({.metric = "BLEU", .evaluated = 1112, .whole = 1112}),
               VerdictLevel::kGood);
  CheckVerdict(JudgeEvaluatedPart({}), VerdictLevel::kUnknown, "Not recorded");
}

TEST_CASE("the end of a run is told from its state and its last sign of life") {
  FinishedInput input{.state = "done", .reason = "max_time", .updates = 1500, .seconds = 60.0};
  CheckVerdict(JudgeEnd(input), VerdictLevel::kGood, "1,500 updates in 1 min 00 s");
  input.state = "running";
  input.silent_seconds = 900.0;
  CheckVerdict(JudgeEnd(input), VerdictLevel::kBad, "No sign of life for 15 min");
  input.period_seconds = 100.0;
  CheckVerdict(JudgeEnd(input), VerdictLevel::kNote, "Still running", false);
  // There is no heartbeat during an evaluation.
  input.period_seconds = 1.0;
  input.longest_pause = 310.0;
  CheckVerdict(JudgeEnd(input), VerdictLevel::kNote, "Still running", false);
  input.longest_pause = 290.0;
  CheckVerdict(JudgeEnd(input), VerdictLevel::kBad, "No sign of life for 15 min");
  input.silent_seconds = kNaN;
  CheckVerdict(JudgeEnd(input), VerdictLevel::kNote, "Still running", false);
  input.state = "preparing";
  CheckVerdict(JudgeEnd(input), VerdictLevel::kNote, "Still running", false);
  input.silent_seconds = 3500.0;
  CheckVerdict(JudgeEnd(input), VerdictLevel::kNote, "Still running", false);
  input.silent_seconds = 7200.0;
  CheckVerdict(JudgeEnd(input), VerdictLevel::kUnknown, "no sign of life for 2 h 00 min");
  input.state = "failed";
  input.message = "disk full";
  CheckVerdict(JudgeEnd(input), VerdictLevel::kBad, "disk full");
  input.is_public = true;
  CheckVerdict(JudgeEnd(input), VerdictLevel::kBad, "the reason is in STATUS");
  CHECK_THAT(JudgeEnd(input).text, !Catch::Contains("disk full"));
  input.state = "stopped";
  CheckVerdict(JudgeEnd(input), VerdictLevel::kNote, "Stopped on request");
  input.state = "";
  CheckVerdict(JudgeEnd(input), VerdictLevel::kUnknown, "STATUS");
}

TEST_CASE("restarts are counted and named, at most six") {
  CheckVerdict(JudgeRestarts({}), VerdictLevel::kGood, "in one go");
  CheckVerdict(JudgeRestarts({.steps = {76, 1480}}), VerdictLevel::kGood,
               "2 times from a checkpoint: at update 76; 1,480.");
  CheckVerdict(JudgeRestarts({.steps = std::vector<int64_t>(9, 5)}), VerdictLevel::kGood, "; ...");
  CheckVerdict(JudgeRestarts({.steps = {76}, .seconds = 1000.0, .lost_seconds = 20.0}),
               VerdictLevel::kGood, "20 s of 16 min 40 s by the clock were lost");
  CheckVerdict(JudgeRestarts({.steps = {76}, .seconds = 1000.0, .lost_seconds = 100.0}),
               VerdictLevel::kNote, "checkpoint_every");
}

TEST_CASE("waiting for data is fine, worth knowing, or the bottleneck") {
  CheckVerdict(JudgeData(0.002), VerdictLevel::kGood, "0.2 %");
  CheckVerdict(JudgeData(0.08), VerdictLevel::kNote);
  CheckVerdict(JudgeData(0.4), VerdictLevel::kBad, "40 %");
  CheckVerdict(JudgeData(kNaN), VerdictLevel::kUnknown, "Not recorded: data_share");
}

TEST_CASE("waiting for gradients is judged with its rate in both units") {
  CheckVerdict(JudgeNetwork({.ranks = 2, .share = 0.02, .step_seconds = 0.08}),
               VerdictLevel::kGood);
  CheckVerdict(JudgeNetwork({.ranks = 2, .share = 0.1, .step_seconds = 0.08}), VerdictLevel::kNote);
  const Verdict bad =
      JudgeNetwork({.ranks = 2, .share = 0.75, .step_seconds = 0.36, .bytes_each_way = 7.6e6});
  CheckVerdict(bad, VerdictLevel::kBad, "21.1 MB/s = 0.169 Gb/s");
  CHECK_THAT(bad.change, Catch::Contains("wire_precision=bf16"));
  const Verdict halved = JudgeNetwork({.ranks = 2, .share = 0.75, .is_bf16_wire = true});
  CHECK_THAT(halved.change, !Catch::Contains("wire_precision"));
  CheckVerdict(JudgeNetwork({.ranks = 1, .share = 0.75}), VerdictLevel::kGood, "One rank");
  CheckVerdict(JudgeNetwork({.ranks = 2}), VerdictLevel::kUnknown, "Not recorded");
}

TEST_CASE("the network is what all ranks wait for, not what one waits for another") {
  CheckVerdict(JudgeNetwork({.ranks = 2, .share = 0.4, .common_share = 0.04}), VerdictLevel::kGood,
               "4.0 % of the time of updates all ranks waited");
  CheckVerdict(JudgeNetwork({.ranks = 2, .share = 0.4, .common_share = 0.06}), VerdictLevel::kNote,
               "The network costs time");
  const Verdict bad = JudgeNetwork({.ranks = 2, .share = 0.4, .common_share = 0.25});
  CheckVerdict(bad, VerdictLevel::kBad, "The network was the bottleneck");
  CHECK(bad.sure == Sureness::kMeasured);
  CHECK_THAT(bad.evidence, Catch::Contains("Rank 0 waited 40 %"));
}

TEST_CASE("a rank that is slow most of the time is named, ranks that take turns are not") {
  const auto judge = [](int ranks, double lost, double same) {
    return JudgeSlowRank({.ranks = ranks, .lost_share = lost, .rank = 3, .same_share = same});
  };
  CheckVerdict(judge(4, 0.04, 1.0), VerdictLevel::kGood, "about equally fast");
  CheckVerdict(judge(4, 0.06, 0.49), VerdictLevel::kNote, "in turn");
  CheckVerdict(judge(4, 0.06, 0.51), VerdictLevel::kWarn, "Rank 3 is slow");
  CheckVerdict(judge(4, 0.16, 0.51), VerdictLevel::kBad, "Rank 3 is slow");
  // Of two ranks one is the slower one in half of the records by chance.
  CheckVerdict(judge(2, 0.16, 0.79), VerdictLevel::kNote, "in turn");
  CheckVerdict(judge(2, 0.16, 0.81), VerdictLevel::kBad, "Rank 3 is slow");
  CheckVerdict(judge(1, kNaN, 0.0), VerdictLevel::kGood, "One rank");
  CheckVerdict(judge(2, kNaN, 0.0), VerdictLevel::kUnknown, "Not recorded");
  CheckVerdict(JudgeSlowRank({.ranks = 2, .is_on_gpu = true, .lost_share = 0.5}),
               VerdictLevel::kUnknown, "times of GPUs");
}

TEST_CASE("a rate that moves weights far, or hardly, is told from one that does not") {
  const auto judge = [](double moved) {
    return JudgeRate({.peak = 1e-3, .last = 0.0, .update_share = moved});
  };
  CheckVerdict(judge(1.1e-2), VerdictLevel::kWarn, "may be too high");
  CheckVerdict(judge(0.9e-2), VerdictLevel::kGood);
  CheckVerdict(judge(1.1e-5), VerdictLevel::kGood);
  CheckVerdict(judge(0.9e-5), VerdictLevel::kNote, "is low");
  CHECK_THAT(judge(1e-3).evidence, Catch::Contains("0.001 of their norm"));
  CHECK_THAT(judge(kNaN).evidence, Catch::Contains("not recorded"));
}

TEST_CASE("a score whose values per row are recorded has its interval") {
  const Verdict verdict = JudgeEvaluatedPart(
      {.metric = "31.5 BLEU", .evaluated = 1112.0, .whole = 1112.0, .interval = "29.7 to 33.2"});
  CheckVerdict(verdict, VerdictLevel::kGood);
  CHECK_THAT(verdict.evidence, Catch::Contains("29.7 to 33.2"));
}

TEST_CASE("checkpoints and evaluations that take much of the time are named, with advice") {
  CheckVerdict(JudgeCheckpoints({0.2, 300.0, 5}), VerdictLevel::kGood);
  CheckVerdict(JudgeCheckpoints({8.0, 300.0, 5}), VerdictLevel::kNote);
  // 4 s each and a failure a day: sqrt(2 * 4 * 86400) s = 13.9 min.
  CheckVerdict(JudgeCheckpoints({20.0, 300.0, 5}), VerdictLevel::kWarn,
               "trainer.checkpoint_every=14m");
  CheckVerdict(JudgeCheckpoints({0.0, 300.0, 0}), VerdictLevel::kUnknown);
  CheckVerdict(JudgeEvaluations({2.5, 300.0, 5}), VerdictLevel::kGood);
  CheckVerdict(JudgeEvaluations({40.0, 300.0, 5}), VerdictLevel::kNote);
  const OverheadInput costly{.seconds = 120.0, .wall_seconds = 300.0, .count = 5};
  CheckVerdict(JudgeEvaluations(costly), VerdictLevel::kWarn, "eval_every");
  CHECK_THAT(JudgeEvaluations(costly).change, !Catch::Contains("eval_max_sentences"));
  OverheadInput shortened = costly;
  shortened.can_shorten = true;
  CheckVerdict(JudgeEvaluations(shortened), VerdictLevel::kWarn, "trainer.eval_max_sentences");
  CheckVerdict(JudgeEvaluations({0.0, 300.0, 0}), VerdictLevel::kUnknown, "no evaluation");
}

TEST_CASE("processor time of other programs is worth knowing, or to be changed") {
  CheckVerdict(JudgeOthers(0.01), VerdictLevel::kGood, "1.0 %");
  CheckVerdict(JudgeOthers(0.1), VerdictLevel::kNote, "Other programs");
  CheckVerdict(JudgeOthers(0.4), VerdictLevel::kWarn, "40 %");
  CheckVerdict(JudgeOthers(kNaN), VerdictLevel::kUnknown, "Not recorded");
}

TEST_CASE("odd data is named, the largest share first") {
  const SideFacts fine{.pieces_per_word = 1.5, .unknown_rate = 0.0};
  PreparationFacts facts{.pairs_read = 100.0,
                         .pairs_kept = 99.0,
                         .dropped = {{"copy", 1.0}},
                         .sets = {{"train", 99.0, 0.0, fine, fine}}};
  CheckVerdict(JudgePreparation(facts, 128.0), VerdictLevel::kGood, "99 of 100 pairs kept");

  facts.pairs_kept = 60.0;
  facts.dropped = {{"length_ratio", 38.0}, {"evaluation_overlap", 2.0}};
  facts.sets[0].cut_pairs = 9.0;
  facts.sets[0].source.unknown_rate = 0.02;
  facts.sets[0].target.pieces_per_word = 3.0;
  const Verdict odd = JudgePreparation(facts, 128.0);
  CheckVerdict(odd, VerdictLevel::kNote, "40 % of the pairs were dropped, most as length ratio");
  CHECK_THAT(odd.text, Catch::Contains("9 of 99 pairs of train are cut at 128 pieces"));
  CHECK_THAT(odd.text, Catch::Contains("2.00 % of the pieces of train source are unknown"));
  CHECK_THAT(odd.text, Catch::Contains("2 training pairs were in dev or test too"));
  CHECK_THAT(odd.text, Catch::Contains("3.0 pieces a word on the target side"));
  CHECK(odd.number == "40 %");
}

TEST_CASE("a preparation report without numbers is no finding") {
  CheckVerdict(JudgePreparation({.sets = {{.name = "train"}}}, 0.0), VerdictLevel::kUnknown,
               "Not recorded");
}

TEST_CASE("a rule without a record says what is missing") {
  CheckVerdict(NotRecorded("slow", "A slow rank", "times of the other ranks"),
               VerdictLevel::kUnknown, "Not recorded: times of the other ranks.");
}

}  // namespace
}  // namespace dtrain
