// classification_metrics.cc - integer counts; AUC from ranks, sorted once for all subsets.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/metrics/classification_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"

namespace dtrain {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr double kJigsawPower = -5.0;

double Ratio(int64_t a, int64_t b) {
  return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
}

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

std::vector<uint32_t> SortedOrder(std::span<const float> values) {
  DT_CHECK_LT(values.size(), size_t{std::numeric_limits<uint32_t>::max()});
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return values[a] < values[b]; });
  return order;
}

double Pearson(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double covariance = 0.0;
  double square_a = 0.0;
  double square_b = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double da = a[i] - mean_a;
    const double db = b[i] - mean_b;
    covariance += da * db;
    square_a += da * da;
    square_b += db * db;
  }
  if (square_a == 0.0 || square_b == 0.0) return kUndefined;
  return std::clamp(covariance / std::sqrt(square_a * square_b), -1.0, 1.0);
}

// Ranks, counted from 1. Equal values share the mean of their ranks.
std::vector<double> AverageRanks(std::span<const float> values) {
  const std::vector<uint32_t> order = SortedOrder(values);
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double rank = 0.5 * static_cast<double>(begin + 1 + end);
    for (; begin < end; ++begin) ranks[order[begin]] = rank;
  }
  return ranks;
}

// Twice the number of (positive, negative) pairs in the right order, where equal scores count half:
// an integer.
class PairCounter {
 public:
  void Add(bool is_positive) { ++(is_positive ? positives_here_ : negatives_here_); }
  // Ends a group of rows with equal scores, which must be higher than those of all earlier groups.
  void EndScore() {
    twice_ += 2 * positives_here_ * negatives_ + positives_here_ * negatives_here_;
    positives_ += positives_here_;
    negatives_ += negatives_here_;
    positives_here_ = negatives_here_ = 0;
  }
  double Auc() const {
    if (positives_ == 0 || negatives_ == 0) return kUndefined;
    return static_cast<double>(twice_) /
           (2.0 * static_cast<double>(positives_) * static_cast<double>(negatives_));
  }

 private:
  int64_t twice_ = 0;
  int64_t positives_ = 0;
  int64_t negatives_ = 0;
  int64_t positives_here_ = 0;
  int64_t negatives_here_ = 0;
};

// The AUC of the rows for which takes(row) is true. `order` sorts all rows by score.
template <typename Takes>
double AucOf(std::span<const float> scores, std::span<const uint8_t> is_positive,
             std::span<const uint32_t> order, const Takes& takes) {
  PairCounter pairs;
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t row = order[i];
    if (takes(row)) pairs.Add(is_positive[row] != 0);
    if (i + 1 == order.size() || scores[order[i + 1]] != scores[row]) pairs.EndScore();
  }
  return pairs.Auc();
}

double PowerMean(std::span<const double> values, double power) {
  double sum = 0.0;
  for (const double value : values) sum += std::pow(value, power);
  return std::pow(sum / static_cast<double>(values.size()), 1.0 / power);
}

bool AnyNan(std::span<const float> values) {
  return std::any_of(values.begin(), values.end(), [](float v) { return std::isnan(v); });
}

bool IsCharacterStart(char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }

// The first `width` characters of a UTF-8 text.
std::string Cut(const std::string& text, size_t width) {
  size_t bytes = 0;
  for (size_t characters = 0; bytes < text.size(); ++bytes) {
    if (IsCharacterStart(text[bytes]) && characters++ == width) break;
  }
  return text.substr(0, bytes);
}

// The spaces that pad a text to `width`, if every character has width one.
std::string Blanks(const std::string& text, size_t width) {
  const auto characters =
      static_cast<size_t>(std::count_if(text.begin(), text.end(), IsCharacterStart));
  return std::string(width - std::min(width, characters), ' ');
}

std::string AlignRight(const std::string& text, size_t width) {
  const std::string cut = Cut(text, width);
  return Blanks(cut, width) + cut;
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(int64_t num_classes)
    : num_classes_(num_classes), counts_(static_cast<size_t>(num_classes * num_classes)) {
  DT_CHECK_GT(num_classes, 0);
}

void ConfusionMatrix::Add(int64_t label, int64_t prediction) {
  DT_CHECK(label >= 0 && label < num_classes_) << "label " << label << " of " << num_classes_;
  DT_CHECK(prediction >= 0 && prediction < num_classes_)
      << "prediction " << prediction << " of " << num_classes_;
  ++counts_[static_cast<size_t>(label * num_classes_ + prediction)];
}

int64_t ConfusionMatrix::count(int64_t label, int64_t prediction) const {
  return counts_[static_cast<size_t>(label * num_classes_ + prediction)];
}

int64_t ConfusionMatrix::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
}

int64_t ConfusionMatrix::labels(int64_t c) const {
  int64_t sum = 0;
  for (int64_t p = 0; p < num_classes_; ++p) sum += count(c, p);
  return sum;
}

int64_t ConfusionMatrix::predictions(int64_t c) const {
  int64_t sum = 0;
  for (int64_t l = 0; l < num_classes_; ++l) sum += count(l, c);
  return sum;
}

double ConfusionMatrix::Accuracy() const {
  int64_t right = 0;
  for (int64_t c = 0; c < num_classes_; ++c) right += count(c, c);
  return total() == 0 ? kUndefined : Ratio(right, total());
}

double ConfusionMatrix::Precision(int64_t c) const { return Ratio(count(c, c), predictions(c)); }
double ConfusionMatrix::Recall(int64_t c) const { return Ratio(count(c, c), labels(c)); }
double ConfusionMatrix::F1(int64_t c) const {
  return Ratio(2 * count(c, c), labels(c) + predictions(c));
}

double ConfusionMatrix::MacroF1() const {
  double sum = 0.0;
  int64_t classes = 0;
  for (int64_t c = 0; c < num_classes_; ++c) {
    if (labels(c) + predictions(c) == 0) continue;
    sum += F1(c);
    ++classes;
  }
  return classes == 0 ? kUndefined : sum / static_cast<double>(classes);
}

// Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient" (2004).
double ConfusionMatrix::Matthews() const {
  const auto n = static_cast<double>(total());
  double right = 0.0;
  double products = 0.0;
  double labels_squared = 0.0;
  double predictions_squared = 0.0;
  for (int64_t c = 0; c < num_classes_; ++c) {
    const auto l = static_cast<double>(labels(c));
    const auto p = static_cast<double>(predictions(c));
    right += static_cast<double>(count(c, c));
    products += l * p;
    labels_squared += l * l;
    predictions_squared += p * p;
  }
  const double spread = (n * n - predictions_squared) * (n * n - labels_squared);
  return spread == 0.0 ? 0.0 : (right * n - products) / std::sqrt(spread);
}

std::string ConfusionMatrix::Format(const std::vector<std::string>& names,
                                    int64_t max_classes) const {
  std::vector<int64_t> shown(static_cast<size_t>(num_classes_));
  std::iota(shown.begin(), shown.end(), int64_t{0});
  if (num_classes_ > max_classes) {
    std::stable_sort(shown.begin(), shown.end(),
                     [&](int64_t a, int64_t b) { return labels(a) > labels(b); });
    shown.resize(static_cast<size_t>(max_classes));
  }
  std::vector<std::string> titles;
  std::set<std::string> heads;
  for (const int64_t c : shown) {
    const auto i = static_cast<size_t>(c);
    titles.push_back(i < names.size() ? names[i] : std::to_string(c));
    heads.insert(Cut(titles.back(), 10));
  }
  const bool are_alike = heads.size() < titles.size();
  for (size_t i = 0; i < titles.size() && are_alike; ++i) {
    titles[i] = absl::StrCat(shown[i], ":", titles[i]);
  }
  std::string text = "label\\prediction";
  for (const std::string& title : titles) absl::StrAppend(&text, " ", AlignRight(title, 10));
  text += absl::StrFormat(" %8s %9s %7s %7s\n", "rows", "precision", "recall", "f1");
  for (size_t i = 0; i < titles.size(); ++i) {
    const int64_t label = shown[i];
    text += AlignRight(titles[i], 16);
    for (const int64_t c : shown) text += absl::StrFormat(" %10d", count(label, c));
    text += absl::StrFormat(" %8d %9.4f %7.4f %7.4f\n", labels(label), Precision(label),
                            Recall(label), F1(label));
  }
  if (num_classes_ > max_classes) {
    text += absl::StrFormat("  (and %d classes with fewer rows)\n", num_classes_ - max_classes);
  }
  return text;
}

double PearsonCorrelation(std::span<const float> a, std::span<const float> b) {
  DT_CHECK_EQ(a.size(), b.size());
  if (a.size() < 2 || !AllFinite(a) || !AllFinite(b)) return kUndefined;
  return Pearson(std::vector<double>(a.begin(), a.end()), std::vector<double>(b.begin(), b.end()));
}

double SpearmanCorrelation(std::span<const float> a, std::span<const float> b) {
  DT_CHECK_EQ(a.size(), b.size());
  if (a.size() < 2 || !AllFinite(a) || !AllFinite(b)) return kUndefined;
  return Pearson(AverageRanks(a), AverageRanks(b));
}

double RocAuc(std::span<const float> scores, std::span<const uint8_t> is_positive) {
  DT_CHECK_EQ(scores.size(), is_positive.size());
  if (AnyNan(scores)) return kUndefined;
  return AucOf(scores, is_positive, SortedOrder(scores), [](uint32_t) { return true; });
}

JigsawScore ComputeJigsawScore(std::span<const float> scores, std::span<const uint8_t> is_positive,
                               std::span<const uint32_t> groups, int64_t num_groups) {
  DT_CHECK_EQ(scores.size(), is_positive.size());
  DT_CHECK_EQ(scores.size(), groups.size());
  DT_CHECK(num_groups > 0 && num_groups <= 32) << num_groups << " groups";
  JigsawScore result;
  result.groups.resize(static_cast<size_t>(num_groups));
  result.overall_auc = result.subgroup = result.bpsn = result.bnsp = kUndefined;
  result.final_score = kUndefined;
  const bool has_nan = AnyNan(scores);
  const std::vector<uint32_t> order = has_nan ? std::vector<uint32_t>() : SortedOrder(scores);
  std::vector<double> subgroup;
  std::vector<double> bpsn;
  std::vector<double> bnsp;
  for (int64_t g = 0; g < num_groups; ++g) {
    const auto in_group = [&](uint32_t row) { return (groups[row] >> g & 1u) != 0; };
    const auto positive = [&](uint32_t row) { return is_positive[row] != 0; };
    SubgroupAucs& aucs = result.groups[static_cast<size_t>(g)];
    for (uint32_t row = 0; row < groups.size(); ++row) {
      aucs.rows += in_group(row);
      aucs.positives += in_group(row) && positive(row);
    }
    aucs.subgroup = AucOf(scores, is_positive, order, in_group);
    aucs.bpsn = AucOf(scores, is_positive, order,
                      [&](uint32_t row) { return in_group(row) != positive(row); });
    aucs.bnsp = AucOf(scores, is_positive, order,
                      [&](uint32_t row) { return in_group(row) == positive(row); });
    subgroup.push_back(aucs.subgroup);
    bpsn.push_back(aucs.bpsn);
    bnsp.push_back(aucs.bnsp);
  }
  if (has_nan) return result;
  result.overall_auc = AucOf(scores, is_positive, order, [](uint32_t) { return true; });
  result.subgroup = PowerMean(subgroup, kJigsawPower);
  result.bpsn = PowerMean(bpsn, kJigsawPower);
  result.bnsp = PowerMean(bnsp, kJigsawPower);
  result.final_score =
      0.25 * result.overall_auc + 0.75 * (result.subgroup + result.bpsn + result.bnsp) / 3.0;
  return result;
}

std::string JigsawScore::Format(const std::vector<std::string>& group_names) const {
  std::string text = absl::StrFormat("%-30s %8s %9s %9s %9s %9s\n", "group", "rows", "positive",
                                     "subgroup", "bpsn", "bnsp");
  for (size_t g = 0; g < groups.size(); ++g) {
    const SubgroupAucs& aucs = groups[g];
    const std::string name = g < group_names.size() ? group_names[g] : std::to_string(g);
    absl::StrAppend(&text, name, Blanks(name, 30));
    text += absl::StrFormat(" %8d %9d %9.5f %9.5f %9.5f\n", aucs.rows, aucs.positives,
                            aucs.subgroup, aucs.bpsn, aucs.bnsp);
  }
  text += absl::StrFormat("%-49s %9.5f %9.5f %9.5f\n", "power mean, p = -5", subgroup, bpsn, bnsp);
  return text + absl::StrFormat("AUC %.5f, final score %.5f\n", overall_auc, final_score);
}

}  // namespace dtrain
