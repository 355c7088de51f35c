// chrf.cc - character n-gram statistics and their F-score.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/metrics/chrf.h"

#include <algorithm>
#include <mutex>

#include "absl/strings/str_format.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/metrics/bleu.h"
#include "dtrain/metrics/internal/ngram_matcher.h"
#include "dtrain/metrics/internal/python_text.h"

namespace dtrain {
namespace {

constexpr int kChrfOrder = ChrfStatistics::kMaxOrder;

class SegmentCounter {
 public:
  explicit SegmentCounter(bool lowercase) : lowercase_(lowercase) {}

  void SetHypothesis(std::string_view line) { Read(line, hypothesis_); }

  ChrfStatistics CountAgainst(std::string_view reference) {
    Read(reference, reference_);
    matcher_.Start();
    matcher_.AddText(hypothesis_);
    matcher_.AddText(reference_);
    ChrfStatistics statistics;
    for (int order = 1; order <= kChrfOrder; ++order) {
      const int64_t in_reference = Grams(reference_, order);
      int64_t* const counts = statistics.counts.data() + 3 * (order - 1);
      // If the reference is too short for an order, the hypothesis' n-grams of that order are not
      // counted.
      counts[0] = in_reference > 0 ? Grams(hypothesis_, order) : 0;
      counts[1] = in_reference;
      counts[2] = matcher_.MatchNextOrder();
    }
    return statistics;
  }

 private:
  void Read(std::string_view line, std::vector<uint32_t>& code_points) const {
    code_points.clear();
    if (lowercase_) {
      internal::AppendVisibleCodePoints(internal::LowerCase(line), code_points);
    } else {
      internal::AppendVisibleCodePoints(line, code_points);
    }
  }
  static int64_t Grams(const std::vector<uint32_t>& text, int order) {
    return std::max<int64_t>(0, static_cast<int64_t>(text.size()) - order + 1);
  }

  bool lowercase_;
  std::vector<uint32_t> hypothesis_;
  std::vector<uint32_t> reference_;
  internal::NgramMatcher matcher_;
};

double FScore(double precision, double recall, double factor) {
  return (1 + factor) * precision * recall / (factor * precision + recall);
}

}  // namespace

ChrfStatistics& ChrfStatistics::operator+=(const ChrfStatistics& other) {
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  return *this;
}

StatusOr<ChrfStatistics> CountChrf(std::span<const std::string> hypotheses,
                                   std::span<const std::vector<std::string>> references,
                                   const ChrfOptions& options) {
  if (hypotheses.empty()) return DataError("chrF: there is no hypothesis line to score");
  if (references.empty()) return DataError("chrF: there is no reference to score against");
  for (size_t r = 0; r < references.size(); ++r) {
    if (references[r].size() == hypotheses.size()) continue;
    return DataError(absl::StrFormat(
        "chrF: %d hypothesis lines but %d lines in reference %d; give one line per segment",
        hypotheses.size(), references[r].size(), r + 1));
  }
  std::mutex mutex;
  ChrfStatistics sum;
  ParallelFor(static_cast<int64_t>(hypotheses.size()), 256, [&](int64_t begin, int64_t end) {
    SegmentCounter counter(options.lowercase);
    ChrfStatistics part;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      counter.SetHypothesis(hypotheses[i]);
      ChrfStatistics best = counter.CountAgainst(references[0][i]);
      for (size_t r = 1; r < references.size(); ++r) {
        const ChrfStatistics other = counter.CountAgainst(references[r][i]);
        if (ComputeChrf(other, options) > ComputeChrf(best, options)) best = other;
      }
      part += best;
    }
    const std::lock_guard lock(mutex);
    sum += part;
  });
  return sum;
}

double ComputeChrf(const ChrfStatistics& statistics, const ChrfOptions& options) {
  constexpr double kEpsilon = 1e-16;
  const double factor = options.beta * options.beta;
  double score = 0;
  double precisions = 0;
  double recalls = 0;
  int orders = 0;
  for (int order = 0; order < kChrfOrder; ++order) {
    const int64_t* const counts = statistics.counts.data() + 3 * order;
    const auto matches = static_cast<double>(counts[2]);
    const double precision = counts[0] > 0 ? matches / static_cast<double>(counts[0]) : kEpsilon;
    const double recall = counts[1] > 0 ? matches / static_cast<double>(counts[1]) : kEpsilon;
    score += factor * precision + recall > 0 ? FScore(precision, recall, factor) : kEpsilon;
    if (counts[0] > 0 && counts[1] > 0) {
      precisions += precision;
      recalls += recall;
      ++orders;
    }
  }
  if (options.eps_smoothing) return 100 * score / kChrfOrder;
  if (precisions + recalls == 0) return 0;
  return 100 * FScore(precisions / orders, recalls / orders, factor);
}

StatusOr<double> CorpusChrf(std::span<const std::string> hypotheses,
                            const std::vector<std::string>& reference, const ChrfOptions& options) {
  DT_ASSIGN_OR_RETURN(const ChrfStatistics statistics,
                      CountChrf(hypotheses, std::span(&reference, 1), options));
  return ComputeChrf(statistics, options);
}

double SentenceChrf(std::string_view hypothesis, std::string_view reference,
                    const ChrfOptions& options) {
  SegmentCounter counter(options.lowercase);
  counter.SetHypothesis(hypothesis);
  return ComputeChrf(counter.CountAgainst(reference), options);
}

std::string ChrfSignature(int num_references, const ChrfOptions& options) {
  return absl::StrFormat("nrefs:%d|case:%s|eff:%s|nc:6|nw:0|space:no|version:%s", num_references,
                         options.lowercase ? "lc" : "mixed", options.eps_smoothing ? "no" : "yes",
                         kSacrebleuVersion);
}

}  // namespace dtrain
