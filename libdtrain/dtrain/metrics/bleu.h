// bleu.h - BLEU as sacreBLEU 2 computes it, and the teacher-forced BLEU of OpenSeq2Seq.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const BleuScore bleu, CorpusBleu(hypotheses, {references}));
//   LogInfo(bleu.Format());  // BLEU = 27.31 58.1/33.0/20.9/13.6 (BP = 1.000 ratio = 1.002 ...)
//   LogInfo(BleuSignature(1));
//
// Papineni et al., "BLEU: a Method for Automatic Evaluation of Machine Translation" (ACL 2002);
// Post, "A Call for Clarity in Reporting BLEU Scores" (WMT 2018); smoothing "exp" is method 3 of
// Chen and Cherry (WMT 2014). Ranks count their own segments and sum the statistics.
#ifndef DTRAIN_METRICS_BLEU_H_
#define DTRAIN_METRICS_BLEU_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

// The sacreBLEU version whose results and signatures ours equal.
inline constexpr char kSacrebleuVersion[] = "2.6.0";

// What BLEU is computed from; sums over segments and over ranks are sums of `counts`.
struct BleuStatistics {
  static constexpr int kMaxOrder = 4;
  // {hypothesis length, reference length, matches of order 1-4, n-grams of order 1-4}.
  std::array<int64_t, 2 + 2 * kMaxOrder> counts{};

  int64_t hypothesis_length() const { return counts[0]; }
  int64_t reference_length() const { return counts[1]; }
  int64_t matches(int order) const { return counts[1 + order]; }
  int64_t totals(int order) const { return counts[1 + kMaxOrder + order]; }

  BleuStatistics& operator+=(const BleuStatistics& other);
  bool operator==(const BleuStatistics&) const = default;
};

struct BleuOptions {
  bool lowercase = false;
  // Leaves out orders longer than the hypothesis; right for single sentences.
  bool effective_order = false;
};

struct BleuScore {
  double score = 0;                    // 0 to 100
  std::array<double, 4> precisions{};  // percent, smoothed
  double brevity_penalty = 0;
  BleuStatistics statistics;

  // "82.4/50.0/45.5/37.5 (BP = 0.943 ratio = 0.944 hyp_len = 17 ref_len = 18)".
  std::string Verbose() const;
  // "BLEU = 48.53 " and Verbose().
  std::string Format() const;
};

// The line as mteval-v13a and sacreBLEU's "13a" cut it: tokens with one space between.
std::string Tokenize13a(std::string_view line);

// Statistics of hypotheses[i] against references[r][i], tokenized by 13a, on the thread pool.
// Error (exit code 3): no line, no reference, or sets of unequal length.
StatusOr<BleuStatistics> CountBleu(std::span<const std::string> hypotheses,
                                   std::span<const std::vector<std::string>> references,
                                   const BleuOptions& options = {});

// BLEU with smoothing "exp".
BleuScore ComputeBleu(const BleuStatistics& statistics, const BleuOptions& options = {});

StatusOr<BleuScore> CorpusBleu(std::span<const std::string> hypotheses,
                               std::span<const std::vector<std::string>> references,
                               const BleuOptions& options = {});
// One reference set.
StatusOr<BleuScore> CorpusBleu(std::span<const std::string> hypotheses,
                               const std::vector<std::string>& reference,
                               const BleuOptions& options = {});

// Effective order, as sacrebleu.sentence_bleu().
BleuScore SentenceBleu(std::string_view hypothesis, std::string_view reference,
                       bool lowercase = false);

// "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0".
std::string BleuSignature(int num_references, const BleuOptions& options = {});

// Which ids the teacher-forced BLEU ignores; -1 stands for none.
struct TokenBleuOptions {
  int32_t end_id = -1;      // the sequence ends at the first one
  int32_t padding_id = -1;  // left out
  int32_t start_id = -1;    // left out
};

// Statistics of one pair of token sequences as OpenSeq2Seq (NLTK 3.2.5) counts them: each order has
// at least one n-gram per sentence in its denominator, however short the hypothesis.
BleuStatistics CountTokenBleu(std::span<const int32_t> hypothesis,
                              std::span<const int32_t> reference,
                              const TokenBleuOptions& options = {});

// In [0, 1], rounded to four decimals, no smoothing: 0 if any order has no match.
double ComputeTokenBleu(const BleuStatistics& statistics);

}  // namespace dtrain

#endif  // DTRAIN_METRICS_BLEU_H_
