// bleu.cc - the 13a tokenizer as four byte passes, n-gram statistics, and the score.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/metrics/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "absl/strings/str_format.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/metrics/internal/ngram_matcher.h"
#include "dtrain/metrics/internal/python_text.h"

namespace dtrain {
namespace {

constexpr int kBleuOrder = BleuStatistics::kMaxOrder;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsPeriodOrComma(char c) { return c == '.' || c == ','; }

// ASCII space and punctuation, except the apostrophe, comma, hyphen and full stop.
constexpr std::array<bool, 256> MakeSeparators() {
  std::array<bool, 256> separators{};
  for (size_t c = 0x20; c < 0x7F; ++c) {
    const bool alphanumeric =
        (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    separators[c] = !alphanumeric && c != '\'' && c != ',' && c != '-' && c != '.';
  }
  return separators;
}
constexpr std::array<bool, 256> kSeparators = MakeSeparators();

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  size_t position = text.find(from);
  if (position == std::string::npos) return;
  std::string out;
  size_t start = 0;
  for (; position != std::string::npos; position = text.find(from, start)) {
    out.append(text, start, position - start);
    out += to;
    start = position + from.size();
  }
  out.append(text, start, std::string::npos);
  text = std::move(out);
}

// There are four passes because each depends on the previous one's output. The second and third
// advance by two bytes at a time because, like matches of a regular expression, replacements never
// overlap.
class Tokenizer13a {
 public:
  // Returns the tokens, still with runs of white space. Valid until the next call.
  const std::string& Tokenize(std::string_view line) {
    line = internal::StripRight(line);
    in_.assign(1, ' ');
    in_ += line;
    ReplaceAll(in_, "<skipped>", "");
    ReplaceAll(in_, "-\n", "");
    std::replace(in_.begin(), in_.end(), '\n', ' ');
    if (in_.find('&') != std::string::npos) {
      ReplaceAll(in_, "&quot;", "\"");
      ReplaceAll(in_, "&amp;", "&");
      ReplaceAll(in_, "&lt;", "<");
      ReplaceAll(in_, "&gt;", ">");
    }
    in_ += ' ';
    SetOffPunctuation();
    SetOffPeriodAfterNonDigit();
    SetOffPeriodBeforeNonDigit();
    SetOffDashAfterDigit();
    return in_;
  }

 private:
  void SetOffPunctuation() {
    out_.clear();
    for (const char c : in_) {
      if (kSeparators[static_cast<uint8_t>(c)]) {
        out_ += ' ';
        out_ += c;
        out_ += ' ';
      } else {
        out_ += c;
      }
    }
    in_.swap(out_);
  }

  void SetOffPeriodAfterNonDigit() {
    out_.clear();
    for (size_t i = 0; i < in_.size(); ++i) {
      out_ += in_[i];
      if (!IsDigit(in_[i]) && i + 1 < in_.size() && IsPeriodOrComma(in_[i + 1])) {
        out_ += ' ';
        out_ += in_[++i];
        out_ += ' ';
      }
    }
    in_.swap(out_);
  }

  void SetOffPeriodBeforeNonDigit() {
    out_.clear();
    for (size_t i = 0; i < in_.size(); ++i) {
      if (IsPeriodOrComma(in_[i]) && i + 1 < in_.size() && !IsDigit(in_[i + 1])) {
        out_ += ' ';
        out_ += in_[i];
        out_ += ' ';
        out_ += in_[++i];
      } else {
        out_ += in_[i];
      }
    }
    in_.swap(out_);
  }

  void SetOffDashAfterDigit() {
    out_.clear();
    for (size_t i = 0; i < in_.size(); ++i) {
      out_ += in_[i];
      if (IsDigit(in_[i]) && i + 1 < in_.size() && in_[i + 1] == '-') {
        out_ += " - ";
        ++i;
      }
    }
    in_.swap(out_);
  }

  std::string in_;
  std::string out_;
};

// Counts n-gram statistics of texts of symbols. The first text is the hypothesis.
class StatisticsCounter {
 public:
  BleuStatistics Count(std::span<const std::vector<uint32_t>> texts) {
    BleuStatistics statistics;
    const auto hypothesis_length = static_cast<int64_t>(texts[0].size());
    statistics.counts[0] = hypothesis_length;
    statistics.counts[1] = ClosestLength(texts);
    matcher_.Start();
    for (const std::vector<uint32_t>& text : texts) matcher_.AddText(text);
    for (int order = 1; order <= kBleuOrder; ++order) {
      statistics.counts[1 + order] = matcher_.MatchNextOrder();
      statistics.counts[1 + kBleuOrder + order] =
          std::max<int64_t>(0, hypothesis_length - order + 1);
    }
    return statistics;
  }

 private:
  // The reference length closest to the hypothesis' length; of two equally close ones, the shorter.
  static int64_t ClosestLength(std::span<const std::vector<uint32_t>> texts) {
    const auto length = static_cast<int64_t>(texts[0].size());
    int64_t best = static_cast<int64_t>(texts[1].size());
    for (const std::vector<uint32_t>& text : texts.subspan(2)) {
      const auto candidate = static_cast<int64_t>(text.size());
      const int64_t gain = std::abs(length - best) - std::abs(length - candidate);
      if (gain > 0 || (gain == 0 && candidate < best)) best = candidate;
    }
    return best;
  }

  internal::NgramMatcher matcher_;
};

// Turns lines into symbols. A word keeps its id from one line to the next.
class LineCounter {
 public:
  explicit LineCounter(bool lowercase) : lowercase_(lowercase) {}

  void Start(size_t num_texts) {
    texts_.resize(num_texts);
    next_ = 0;
  }
  void Add(std::string_view line) {
    std::string lower;
    if (lowercase_) {
      lower = internal::LowerCase(line);
      line = lower;
    }
    words_.clear();
    internal::SplitWords(tokenizer_.Tokenize(line), words_);
    std::vector<uint32_t>& text = texts_[next_++];
    text.clear();
    for (const std::string_view word : words_) {
      key_.assign(word);
      text.push_back(ids_.try_emplace(key_, static_cast<uint32_t>(ids_.size())).first->second);
    }
  }
  BleuStatistics Count() { return counter_.Count(texts_); }

 private:
  bool lowercase_;
  size_t next_ = 0;
  Tokenizer13a tokenizer_;
  StatisticsCounter counter_;
  std::vector<std::string_view> words_;
  std::string key_;
  std::vector<std::vector<uint32_t>> texts_;
  std::unordered_map<std::string, uint32_t> ids_;
};

double BrevityPenalty(int64_t hypothesis_length, int64_t reference_length) {
  if (hypothesis_length >= reference_length) return 1;
  if (hypothesis_length == 0) return 0;
  return std::exp(1 -
                  static_cast<double>(reference_length) / static_cast<double>(hypothesis_length));
}

// The logarithm, with sacreBLEU's value for 0: so small that any mean of logarithms with it becomes
// 0 after exp.
double LogOrFloor(double x) { return x > 0 ? std::log(x) : -9999999999.0; }

std::vector<uint32_t> KeptTokens(std::span<const int32_t> tokens, const TokenBleuOptions& options) {
  std::vector<uint32_t> kept;
  for (const int32_t token : tokens) {
    if (options.end_id >= 0 && token == options.end_id) break;
    if (options.padding_id >= 0 && token == options.padding_id) continue;
    if (options.start_id >= 0 && token == options.start_id) continue;
    kept.push_back(static_cast<uint32_t>(token));
  }
  return kept;
}

}  // namespace

BleuStatistics& BleuStatistics::operator+=(const BleuStatistics& other) {
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  return *this;
}

std::string BleuScore::Verbose() const {
  const auto hypothesis_length = static_cast<double>(statistics.hypothesis_length());
  const auto reference_length = static_cast<double>(statistics.reference_length());
  return absl::StrFormat("%.1f/%.1f/%.1f/%.1f (BP = %.3f ratio = %.3f hyp_len = %d ref_len = %d)",
                         precisions[0], precisions[1], precisions[2], precisions[3],
                         brevity_penalty,
                         reference_length > 0 ? hypothesis_length / reference_length : 0.0,
                         statistics.hypothesis_length(), statistics.reference_length());
}

std::string BleuScore::Format() const {
  return absl::StrFormat("BLEU = %.2f %s", score, Verbose());
}

std::string Tokenize13a(std::string_view line) {
  Tokenizer13a tokenizer;
  std::vector<std::string_view> words;
  internal::SplitWords(tokenizer.Tokenize(line), words);
  std::string out;
  for (const std::string_view word : words) {
    if (!out.empty()) out += ' ';
    out += word;
  }
  return out;
}

StatusOr<BleuStatistics> CountBleu(std::span<const std::string> hypotheses,
                                   std::span<const std::vector<std::string>> references,
                                   const BleuOptions& options) {
  if (hypotheses.empty()) return DataError("BLEU: there is no hypothesis line to score");
  if (references.empty()) return DataError("BLEU: there is no reference to score against");
  for (size_t r = 0; r < references.size(); ++r) {
    if (references[r].size() == hypotheses.size()) continue;
    return DataError(absl::StrFormat(
        "BLEU: %d hypothesis lines but %d lines in reference %d; give one line per segment",
        hypotheses.size(), references[r].size(), r + 1));
  }
  std::mutex mutex;
  BleuStatistics sum;
  ParallelFor(static_cast<int64_t>(hypotheses.size()), 256, [&](int64_t begin, int64_t end) {
    LineCounter counter(options.lowercase);
    BleuStatistics part;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      counter.Start(1 + references.size());
      counter.Add(hypotheses[i]);
      for (const std::vector<std::string>& reference : references) counter.Add(reference[i]);
      part += counter.Count();
    }
    const std::lock_guard lock(mutex);
    sum += part;
  });
  return sum;
}

BleuScore ComputeBleu(const BleuStatistics& statistics, const BleuOptions& options) {
  BleuScore bleu;
  bleu.statistics = statistics;
  bleu.brevity_penalty =
      BrevityPenalty(statistics.hypothesis_length(), statistics.reference_length());
  bool any_match = false;
  for (int order = 1; order <= kBleuOrder; ++order) any_match |= statistics.matches(order) > 0;
  if (!any_match) return bleu;

  double halvings = 1;
  int last_order = kBleuOrder;
  for (int order = 1; order <= kBleuOrder && statistics.totals(order) > 0; ++order) {
    if (options.effective_order) last_order = order;
    auto matches = static_cast<double>(statistics.matches(order));
    auto total = static_cast<double>(statistics.totals(order));
    if (statistics.matches(order) == 0) {
      halvings *= 2;
      matches = 1;
      total *= halvings;
    }
    bleu.precisions[static_cast<size_t>(order - 1)] = 100 * matches / total;
  }
  double sum = 0;
  for (int order = 0; order < last_order; ++order) {
    sum += LogOrFloor(bleu.precisions[static_cast<size_t>(order)]);
  }
  bleu.score = bleu.brevity_penalty * std::exp(sum / last_order);
  return bleu;
}

StatusOr<BleuScore> CorpusBleu(std::span<const std::string> hypotheses,
                               std::span<const std::vector<std::string>> references,
                               const BleuOptions& options) {
  DT_ASSIGN_OR_RETURN(const BleuStatistics statistics, CountBleu(hypotheses, references, options));
  return ComputeBleu(statistics, options);
}

StatusOr<BleuScore> CorpusBleu(std::span<const std::string> hypotheses,
                               const std::vector<std::string>& reference,
                               const BleuOptions& options) {
  return CorpusBleu(hypotheses, std::span(&reference, 1), options);
}

BleuScore SentenceBleu(std::string_view hypothesis, std::string_view reference, bool lowercase) {
  LineCounter counter(lowercase);
  counter.Start(2);
  counter.Add(hypothesis);
  counter.Add(reference);
  return ComputeBleu(counter.Count(), {.lowercase = lowercase, .effective_order = true});
}

std::string BleuSignature(int num_references, const BleuOptions& options) {
  return absl::StrFormat("nrefs:%d|case:%s|eff:%s|tok:13a|smooth:exp|version:%s", num_references,
                         options.lowercase ? "lc" : "mixed", options.effective_order ? "yes" : "no",
                         kSacrebleuVersion);
}

BleuStatistics CountTokenBleu(std::span<const int32_t> hypothesis,
                              std::span<const int32_t> reference, const TokenBleuOptions& options) {
  const std::array<std::vector<uint32_t>, 2> texts = {KeptTokens(hypothesis, options),
                                                      KeptTokens(reference, options)};
  BleuStatistics statistics = StatisticsCounter().Count(texts);
  for (size_t i = 2 + kBleuOrder; i < statistics.counts.size(); ++i) {
    statistics.counts[i] = std::max<int64_t>(1, statistics.counts[i]);
  }
  return statistics;
}

double ComputeTokenBleu(const BleuStatistics& statistics) {
  double sum = 0;
  for (int order = 1; order <= kBleuOrder; ++order) {
    // NLTK uses the smallest double here. Its fourth root rounds to 0 as well.
    if (statistics.matches(order) == 0) return 0;
    sum += std::log(static_cast<double>(statistics.matches(order)) /
                    static_cast<double>(statistics.totals(order))) /
           kBleuOrder;
  }
  const double score =
      BrevityPenalty(statistics.hypothesis_length(), statistics.reference_length()) * std::exp(sum);
  // Rounds via decimal text, like Python's round(). Multiplying by 10000 could cross a half.
  return std::strtod(absl::StrFormat("%.4f", score).c_str(), nullptr);
}

}  // namespace dtrain
