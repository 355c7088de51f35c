// bleu.h - BLEU as sacreBLEU 2 computes it, and OpenSeq2Seq's teacher-forced BLEU.
// SPDX-License-Identifier: Apache-2.0
//
//   const std::vector<std::string> hypotheses = {"the cat sat on a mat"};
//   const std::vector<std::string> references = {"the cat sat on the mat"};
//   DT_ASSIGN_OR_RETURN(const BleuScore bleu, CorpusBleu(hypotheses, references));
//   LogInfo(bleu.Format());  // BLEU = 48.89 83.3/60.0/50.0/33.3 (BP = 1.000 ratio = 1.000 ...)
//   LogInfo(BleuSignature(/*num_references=*/1));
//
// Papineni et al., "BLEU: a Method for Automatic Evaluation of Machine Translation" (ACL 2002);
// Post, "A Call for Clarity in Reporting BLEU Scores" (WMT 2018). The smoothing "exp" is method 3
// of Chen and Cherry (WMT 2014). Ranks count their own segments and add their statistics.
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

// Results and signatures are equal to those of this version of sacreBLEU.
inline constexpr char kSacrebleuVersion[] = "2.6.0";

// The counts BLEU is computed from. To combine segments or ranks, add their `counts`.
struct BleuStatistics {
  static constexpr int kMaxOrder = 4;
  // {hypothesis length, reference length, matches of order 1-4, n-grams of order 1-4}.
  std::array<int64_t, 2 + 2 * kMaxOrder> counts{};

  int64_t hypothesis_length() const { return counts[0]; }
  int64_t reference_length() const { return counts[1]; }
  // Number of n-grams found in a reference, and of all n-grams; order is 1 to kMaxOrder.
  int64_t matches(int order) const { return counts[1 + order]; }
  int64_t totals(int order) const { return counts[1 + kMaxOrder + order]; }

  BleuStatistics& operator+=(const BleuStatistics& other);
  bool operator==(const BleuStatistics&) const = default;
};

// Options of BLEU; the defaults are those of sacreBLEU.
struct BleuOptions {
  bool lowercase = false;
  // Ignores n-gram orders longer than the hypothesis. Use it for single sentences.
  bool effective_order = false;
};

// BLEU and what it is made of.
struct BleuScore {
  double score = 0;                    // 0 to 100
  std::array<double, 4> precisions{};  // percent, smoothed
  double brevity_penalty = 0;
  BleuStatistics statistics;

  // "82.4/50.0/45.5/37.5 (BP = 0.943 ratio = 0.944 hyp_len = 17 ref_len = 18)".
  std::string Verbose() const;
  // "BLEU = 48.53 " followed by Verbose().
  std::string Format() const;
};

// Tokenizes a line like mteval-v13a and sacreBLEU's "13a". Tokens are separated by one space.
std::string Tokenize13a(std::string_view line);

// Counts statistics of hypotheses[i] against references[r][i] with the 13a tokenizer, on the thread
// pool. Returns DataError (exit code 3) if there is no line or no reference, or if the sets have
// different lengths.
StatusOr<BleuStatistics> CountBleu(std::span<const std::string> hypotheses,
                                   std::span<const std::vector<std::string>> references,
                                   const BleuOptions& options = {});

// Computes BLEU with the smoothing "exp".
BleuScore ComputeBleu(const BleuStatistics& statistics, const BleuOptions& options = {});

// CountBleu() and ComputeBleu() together.
StatusOr<BleuScore> CorpusBleu(std::span<const std::string> hypotheses,
                               std::span<const std::vector<std::string>> references,
                               const BleuOptions& options = {});
// CorpusBleu() with one set of references.
StatusOr<BleuScore> CorpusBleu(std::span<const std::string> hypotheses,
                               const std::vector<std::string>& reference,
                               const BleuOptions& options = {});

// BLEU of one sentence with effective_order, as sacrebleu.sentence_bleu().
BleuScore SentenceBleu(std::string_view hypothesis, std::string_view reference,
                       bool lowercase = false);

// For example "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0".
std::string BleuSignature(int num_references, const BleuOptions& options = {});

// The ids that the teacher-forced BLEU treats specially; -1 for none.
struct TokenBleuOptions {
  int32_t end_id = -1;      // the sequence ends at the first of these
  int32_t padding_id = -1;  // ignored
  int32_t start_id = -1;    // ignored
};

// Counts one pair of token sequences like OpenSeq2Seq (NLTK 3.2.5): each order adds at least one
// n-gram per sentence to its denominator, even if the hypothesis is shorter.
BleuStatistics CountTokenBleu(std::span<const int32_t> hypothesis,
                              std::span<const int32_t> reference,
                              const TokenBleuOptions& options = {});

// Returns BLEU in [0, 1], rounded to four decimals, without smoothing: 0 if any order has no match.
double ComputeTokenBleu(const BleuStatistics& statistics);

}  // namespace dtrain

#endif  // DTRAIN_METRICS_BLEU_H_
