// chrf.h - chrF, the character n-gram F-score, as sacreBLEU 2 computes it.
// SPDX-License-Identifier: Apache-2.0
//
//   const std::vector<std::string> hypotheses = {"the cat sat on a mat"};
//   const std::vector<std::string> references = {"the cat sat on the mat"};
//   DT_ASSIGN_OR_RETURN(const double chrf2, CorpusChrf(hypotheses, references));  // 0 to 100
//
// Popović, "chrF: character n-gram F-score for automatic MT evaluation" (WMT 2015).
#ifndef DTRAIN_METRICS_CHRF_H_
#define DTRAIN_METRICS_CHRF_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

// The counts chrF is computed from. To combine segments or ranks, add their `counts`.
struct ChrfStatistics {
  static constexpr int kMaxOrder = 6;
  // {n-grams of the hypothesis, of the reference, in both}, for n = 1 to 6.
  std::array<int64_t, 3 * kMaxOrder> counts{};

  ChrfStatistics& operator+=(const ChrfStatistics& other);
  bool operator==(const ChrfStatistics&) const = default;
};

// Options of chrF; the defaults are those of sacreBLEU.
struct ChrfOptions {
  bool lowercase = false;
  // false: orders that either side lacks are ignored (sacreBLEU's default, "eff:yes"). true: they
  // count as 1e-16, as in chrF++.py, NLTK and Moses ("eff:no").
  bool eps_smoothing = false;
  double beta = 2;
};

// Counts statistics of hypotheses[i] against references[r][i] on the thread pool. If there are
// several references, the one with the best chrF counts. Returns DataError (exit code 3) if there
// is no line or no reference, or if the sets have different lengths.
StatusOr<ChrfStatistics> CountChrf(std::span<const std::string> hypotheses,
                                   std::span<const std::vector<std::string>> references,
                                   const ChrfOptions& options = {});

// Returns chrF, 0 to 100.
double ComputeChrf(const ChrfStatistics& statistics, const ChrfOptions& options = {});

// CountChrf() and ComputeChrf() together, with one set of references.
StatusOr<double> CorpusChrf(std::span<const std::string> hypotheses,
                            const std::vector<std::string>& reference,
                            const ChrfOptions& options = {});
// chrF of one sentence.
double SentenceChrf(std::string_view hypothesis, std::string_view reference,
                    const ChrfOptions& options = {});

// For example "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0".
std::string ChrfSignature(int num_references, const ChrfOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_METRICS_CHRF_H_
