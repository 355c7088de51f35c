// speed_rules.cc - waiting for data and gradients, checkpoints, evaluations, preparation.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/speed_rules.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "dtrain/report/limits.h"
#include "dtrain/report/number_text.h"
#include "dtrain/report/statistics.h"

namespace dtrain {
namespace {

VerdictLevel LevelOfShare(double share, double note, double bad, VerdictLevel worst) {
  return share >= bad ? worst : share >= note ? VerdictLevel::kNote : VerdictLevel::kGood;
}

// What is odd about the data, and how much of it.
struct Finding {
  double share = 0.0;
  std::string text = {};
  std::string change = {};
};

void FindDropped(const PreparationFacts& facts, std::vector<Finding>& found) {
  const double read = std::max(1.0, facts.pairs_read);
  const double gone = 1.0 - facts.pairs_kept / read;
  const auto worst =
      std::max_element(facts.dropped.begin(), facts.dropped.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (gone > limits::kDropped && worst != facts.dropped.end()) {
    found.push_back({gone,
                     absl::StrFormat("%s of the pairs were dropped, most as %s", PercentText(gone),
                                     absl::StrReplaceAll(worst->first, {{"_", " "}})),
                     "look at the examples of that rule in data/prepare_report.json"});
  }
  for (const auto& [rule, pairs] : facts.dropped) {
    if (rule != "evaluation_overlap") continue;
    found.push_back(
        {pairs / read,
         CountOfThings(pairs, "training pair") + " were in dev or test too and were left out",
         "nothing, they are gone"});
  }
}

void FindInSet(const SetFacts& set, double max_length, std::vector<Finding>& found) {
  const auto look_at = [&](const SideFacts& side, const char* language) {
    if (side.unknown_rate > limits::kUnknown) {
      found.push_back({side.unknown_rate,
                       absl::StrFormat("%.2f %% of the pieces of %s %s are unknown",
                                       100.0 * side.unknown_rate, set.name, language),
                       "data.byte_fallback=true, or a vocabulary learned on such text"});
    }
    if (set.name == "train" && side.pieces_per_word > limits::kPiecesPerWord) {
      found.push_back({0.0,
                       absl::StrFormat("%.1f pieces a word on the %s side: the vocabulary is small",
                                       side.pieces_per_word, language),
                       "a larger data.vocab_size"});
    }
  };
  look_at(set.source, "source");
  look_at(set.target, "target");
  const double cut = set.cut_pairs / std::max(1.0, set.pairs);
  if (cut > limits::kCut) {
    found.push_back(
        {cut,
         absl::StrFormat("%s of %s pairs of %s are cut%s", Thousands(set.cut_pairs),
                         Thousands(set.pairs), set.name,
                         max_length > 0.0 ? absl::StrFormat(" at %.0f pieces", max_length) : ""),
         "a larger data.max_length"});
  }
}

}  // namespace

Verdict JudgeData(double share, int rank) {
  Verdict verdict{.id = "data", .number = PercentText(share), .curve = "wait"};
  if (!std::isfinite(share)) return NotRecorded("data", "Waiting for data", "data_share");
  verdict.level = LevelOfShare(share, limits::kDataNote, limits::kDataBad, VerdictLevel::kBad);
  verdict.title = share >= limits::kDataBad    ? "Data was the bottleneck"
                  : share >= limits::kDataNote ? "Data costs time"
                                               : "Data came in time";
  verdict.text = absl::StrFormat("%s of the time of updates rank %d waited for data.",
                                 PercentText(share), rank);
  if (verdict.level != VerdictLevel::kGood) {
    verdict.change = "Prepare the data once (dtrain prepare), a local disk, more threads.";
  }
  return verdict;
}

Verdict JudgeNetwork(const NetworkInput& input) {
  Verdict verdict{.id = "network", .curve = "wait"};
  if (input.ranks < 2) {
    verdict.title = "No network was needed";
    verdict.text = "One rank trained: there is nothing to exchange.";
    return verdict;
  }
  if (!std::isfinite(input.share)) {
    return NotRecorded("network", "Waiting for gradients", "comm_share");
  }
  const bool is_apart = std::isfinite(input.common_share);
  const double share = is_apart ? input.common_share : input.share;
  verdict.number = PercentText(share);
  verdict.level =
      LevelOfShare(share, limits::kNetworkNote, limits::kNetworkBad, VerdictLevel::kBad);
  const char* const thing = is_apart ? "The network" : "Waiting for gradients";
  verdict.title = share >= limits::kNetworkBad    ? std::string(thing) + " was the bottleneck"
                  : share >= limits::kNetworkNote ? std::string(thing) + " costs time"
                                                  : "The network was not the bottleneck";
  verdict.text = PercentText(share) + " of the time of updates " +
                 (is_apart ? "all ranks" : "rank 0") + " waited for gradients.";
  if (input.bytes_each_way > 0.0 && input.step_seconds > 0.0) {
    const double rate = input.bytes_each_way / input.step_seconds;
    absl::StrAppendFormat(&verdict.text,
                          " %s each way and update, on average %s MB/s = %s Gb/s a rank.",
                          BytesText(input.bytes_each_way), FixedNumber(rate / 1e6, 1),
                          FixedNumber(8.0 * rate / 1e9, 3));
  }
  verdict.evidence =
      is_apart ? absl::StrFormat(
                     "Rank 0 waited %s; what a rank waits longer than the others, it "
                     "waits for a slower rank.",
                     PercentText(input.share))
               : "Only rank 0 is recorded: what it waits for may be a slower rank as well as the "
                 "network.";
  if (verdict.level == VerdictLevel::kGood) return verdict;
  // Waiting of one rank is at least that of the network.
  if (!is_apart) verdict.sure = Sureness::kLikely;
  verdict.change = absl::StrCat(input.is_bf16_wire ? ""
                                                   : "trainer.wire_precision=bf16 halves the "
                                                     "bytes; ",
                                "trainer.power_sgd_rank, larger batches, local updates "
                                "(docs/slow-networks.md). dtrain doctor measures the links.");
  return verdict;
}

Verdict JudgeSlowRank(const SlowInput& input) {
  Verdict verdict{.id = "slow", .curve = "time"};
  if (input.ranks < 2) {
    verdict.title = "No rank waits for another";
    verdict.text = "One rank trained.";
    return verdict;
  }
  if (input.is_on_gpu) {
    CannotTell("A slow rank",
               "Not known: times of GPUs are not recorded, only those of the processes that feed "
               "them.",
               verdict);
    return verdict;
  }
  if (!std::isfinite(input.lost_share)) {
    return NotRecorded("slow", "A slow rank", "times of the other ranks");
  }
  const std::string share = PercentText(input.lost_share);
  verdict.number = share;
  if (input.lost_share < limits::kSlowNote) {
    verdict.title = "The ranks are about equally fast";
    verdict.text = "The slowest one works " + share + " longer on an update than the others.";
    return verdict;
  }
  const double same = input.ranks == 2 ? limits::kSlowSameOfTwo : limits::kSlowSame;
  if (input.same_share <= same) {
    verdict.level = VerdictLevel::kNote;
    verdict.title = "Ranks wait for each other in turn";
    verdict.text = absl::StrFormat(
        "The slowest one works %s longer on an update, but it is not always the "
        "same: rank %d in %s of the records.",
        share, input.rank, PercentText(input.same_share));
    verdict.change =
        "More even batches: trainer.tokens_per_batch larger, or other programs off "
        "these hosts.";
    return verdict;
  }
  verdict.level = input.lost_share >= limits::kSlowBad ? VerdictLevel::kBad : VerdictLevel::kWarn;
  verdict.title = absl::StrFormat("Rank %d is slow", input.rank);
  verdict.text = absl::StrFormat(
      "%s of its time of an update the others wait for rank %d, in %s of the records.", share,
      input.rank, PercentText(input.same_share));
  verdict.change = absl::StrFormat(
      "Look at the host of rank %d: other programs, fewer cores or threads, a hot processor. A "
      "rank less may be faster.",
      input.rank);
  return verdict;
}

namespace {

// The words of a verdict about work beside the updates.
struct OverheadWords {
  std::string_view thing;  // "checkpoint"
  double note, warn;       // shares of the time
};

// The part that checkpoints and evaluations have in common; there is at least one.
void JudgeOverhead(const OverheadInput& input, double share, const OverheadWords& words,
                   Verdict& verdict) {
  verdict.number = PercentText(share);
  verdict.level = LevelOfShare(share, words.note, words.warn, VerdictLevel::kWarn);
  std::string things = std::string(words.thing) + "s";
  things.front() = absl::ascii_toupper(static_cast<unsigned char>(things.front()));
  verdict.title = things + (verdict.level == VerdictLevel::kGood ? " cost little" : " cost time");
  verdict.text =
      absl::StrFormat("%s took %s, %s of the time.",
                      CountOfThings(static_cast<double>(input.count), std::string(words.thing)),
                      DurationText(input.seconds), PercentText(share));
}

double ShareOf(const OverheadInput& input) {
  return input.seconds / std::max(input.wall_seconds, 1e-9);
}

}  // namespace

Verdict JudgeCheckpoints(const OverheadInput& input) {
  Verdict verdict{.id = "checkpoints", .curve = "time"};
  const double share = ShareOf(input);
  if (input.count == 0 || !std::isfinite(share)) {
    CannotTell("No checkpoint", "No checkpoint is recorded: a run that ends early begins anew.",
               verdict);
    return verdict;
  }
  JudgeOverhead(
      input, share,
      {.thing = "checkpoint", .note = limits::kCheckpointNote, .warn = limits::kCheckpointWarn},
      verdict);
  if (verdict.level != VerdictLevel::kGood) {
    const double each = input.seconds / static_cast<double>(input.count);
    const double interval = YoungInterval(each, 3600.0 * limits::kHoursBetweenFailures);
    verdict.change =
        absl::StrFormat("trainer.checkpoint_every=%.0fm", std::max(1.0, interval / 60.0));
  }
  return verdict;
}

Verdict JudgeEvaluations(const OverheadInput& input) {
  Verdict verdict{.id = "evaluations", .curve = "time"};
  const double share = ShareOf(input);
  if (input.count == 0 || !std::isfinite(share)) {
    CannotTell("No evaluation", "There was no evaluation, so nothing shows what was learned.",
               verdict);
    verdict.change = "Give a dev set.";
    return verdict;
  }
  JudgeOverhead(
      input, share,
      {.thing = "evaluation", .note = limits::kEvaluationNote, .warn = limits::kEvaluationWarn},
      verdict);
  if (verdict.level != VerdictLevel::kGood) {
    verdict.change = input.can_shorten ? "A larger trainer.eval_every, or fewer sentences "
                                         "(trainer.eval_max_sentences)."
                                       : "A larger trainer.eval_every.";
  }
  return verdict;
}

Verdict JudgeOthers(double share) {
  if (!std::isfinite(share)) {
    return NotRecorded("others", "Other programs", "processor time of other programs on the hosts");
  }
  Verdict verdict{.id = "others", .number = PercentText(share), .curve = "machines"};
  verdict.text = PercentText(share) + " of the processor time of rank 0's host went to others.";
  verdict.evidence = "Busy time of the host less that of the ranks; waiting ranks count, too.";
  if (share <= limits::kOthersNote) {
    verdict.title = "The machine was free";
    return verdict;
  }
  verdict.level = share > limits::kOthersWarn ? VerdictLevel::kWarn : VerdictLevel::kNote;
  verdict.title = "Other programs used the processors";
  verdict.change = "Train where nothing else runs, or leave cores free (run.threads).";
  return verdict;
}

Verdict JudgePreparation(const PreparationFacts& facts, double max_length) {
  Verdict verdict{.id = "corpus", .curve = "data"};
  if (!std::isfinite(facts.pairs_read) || !std::isfinite(facts.pairs_kept)) {
    return NotRecorded("corpus", "About the data", "how many pairs were read and kept");
  }
  std::vector<Finding> found;
  FindDropped(facts, found);
  for (const SetFacts& set : facts.sets) FindInSet(set, max_length, found);
  const std::string kept =
      Thousands(facts.pairs_kept) + " of " + Thousands(facts.pairs_read) + " pairs kept.";
  if (found.empty()) {
    verdict.title = "The data looks sound";
    verdict.text = kept + " Few pieces are unknown, few pairs are cut.";
    return verdict;
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Finding& a, const Finding& b) { return a.share > b.share; });
  verdict.level = VerdictLevel::kNote;
  verdict.title = "About the data";
  verdict.text = absl::StrJoin(
      found, "; ", [](std::string* out, const Finding& finding) { out->append(finding.text); });
  verdict.text += ".";
  verdict.text.front() = static_cast<char>(std::toupper(verdict.text.front()));
  std::vector<std::string> changes;
  for (const Finding& finding : found) {
    if (std::find(changes.begin(), changes.end(), finding.change) == changes.end()) {
      changes.push_back(finding.change);
    }
  }
  verdict.change = absl::StrJoin(changes, "; ") + ".";
  verdict.change.front() = static_cast<char>(std::toupper(verdict.change.front()));
  if (found.front().share > 0.0) verdict.number = PercentText(found.front().share);
  verdict.evidence = kept;
  return verdict;
}

Verdict NotRecorded(const std::string& id, const std::string& title, const std::string& missing) {
  return {.id = id,
          .level = VerdictLevel::kUnknown,
          .title = title,
          .text = "Not recorded: " + missing + ".",
          .sure = Sureness::kCannotTell};
}

}  // namespace dtrain
