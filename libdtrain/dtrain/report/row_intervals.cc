// row_intervals.cc - sums of drawn rows, of which the metric is computed as it is of all.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/row_intervals.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "dtrain/metrics/bleu.h"
#include "dtrain/metrics/chrf.h"

namespace dtrain {
namespace {

constexpr size_t kMostDraws = 1000;
constexpr size_t kFewestDraws = 100;
constexpr double kMostAdditions = 1e8;  // about 0.1 s
constexpr uint64_t kDrawSeed = 1;

// The numbers of each row that a metric is a function of the sums of.
struct Summed {
  enum class Kind { kRatio, kBleu, kChrf };
  Kind kind = Kind::kRatio;
  size_t width = 0;
  std::vector<double> values = {};  // [rows, width]

  size_t rows() const { return values.size() / width; }
};

std::optional<Summed> CountsOf(const RowValues& rows, std::string_view metric, size_t width,
                               Summed::Kind kind) {
  const RowValues::Column* const column = rows.Find(metric);
  if (column == nullptr || static_cast<size_t>(column->width) != width) return std::nullopt;
  return Summed{kind, width, {column->values.begin(), column->values.end()}};
}

std::optional<Summed> SummedOf(const RowValues& rows, std::string_view metric) {
  if (metric == kBleuColumn) {
    return CountsOf(rows, metric, BleuStatistics().counts.size(), Summed::Kind::kBleu);
  }
  if (metric == kChrfColumn) {
    return CountsOf(rows, metric, ChrfStatistics().counts.size(), Summed::Kind::kChrf);
  }
  const RowValues::Column* const sums = rows.Find(std::string(metric) + ".sum");
  const RowValues::Column* const counts = rows.Find(std::string(metric) + ".count");
  if (sums == nullptr || counts == nullptr || sums->width != 1 || counts->width != 1) {
    return std::nullopt;
  }
  Summed summed{Summed::Kind::kRatio, 2, {}};
  for (size_t i = 0; i < sums->values.size(); ++i) {
    summed.values.push_back(sums->values[i]);
    summed.values.push_back(counts->values[i]);
  }
  return summed;
}

template <typename Statistics>
Statistics FromSums(std::span<const double> sums) {
  Statistics statistics;
  for (size_t i = 0; i < statistics.counts.size(); ++i) {
    // A file may hold anything.
    const double count = sums[i];
    statistics.counts[i] = count >= 0.0 && count < 9e15 ? static_cast<int64_t>(count) : 0;
  }
  return statistics;
}

double MetricOfSums(const Summed& summed, std::span<const double> sums) {
  switch (summed.kind) {
    case Summed::Kind::kBleu:
      return ComputeBleu(FromSums<BleuStatistics>(sums)).score;
    case Summed::Kind::kChrf:
      return ComputeChrf(FromSums<ChrfStatistics>(sums));
    case Summed::Kind::kRatio:
      break;
  }
  return sums[0] / sums[1];
}

// The metric of these rows, each of which may occur several times.
double MetricOfRows(const Summed& summed, std::span<const size_t> rows) {
  std::vector<double> sums(summed.width);
  for (const size_t row : rows) {
    const double* const values = &summed.values[row * summed.width];
    for (size_t i = 0; i < summed.width; ++i) sums[i] += values[i];
  }
  return MetricOfSums(summed, sums);
}

// Value and interval of what `of` computes of drawn rows.
template <typename Function>
std::optional<Interval> Bootstrap(size_t rows, size_t width, const Function& of) {
  if (rows < 2) return std::nullopt;
  std::vector<size_t> drawn(rows);
  for (size_t i = 0; i < rows; ++i) drawn[i] = i;
  Interval interval{.value = of(drawn)};
  if (!std::isfinite(interval.value)) return std::nullopt;
  const double work = static_cast<double>(rows) * static_cast<double>(width);
  const auto draws =
      std::clamp(static_cast<size_t>(kMostAdditions / work), kFewestDraws, kMostDraws);
  // NOLINTNEXTLINE(bugprone-random-generator-seed): a report is the same each time.
  std::mt19937_64 random(kDrawSeed);
  std::vector<double> values;
  for (size_t i = 0; i < draws; ++i) {
    // The standard's distributions differ between libraries; this one is the same everywhere.
    for (size_t& row : drawn) row = static_cast<size_t>(random() % rows);
    const double value = of(drawn);
    if (std::isfinite(value)) values.push_back(value);
  }
  if (values.size() < kFewestDraws / 2) return std::nullopt;
  std::sort(values.begin(), values.end());
  double mean = 0.0;
  for (const double value : values) mean += value;
  mean /= static_cast<double>(values.size());
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  interval.error = std::sqrt(squares / static_cast<double>(values.size() - 1));
  const auto at = [&](double share) {
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
  };
  interval.low = at(0.025);
  interval.high = at(0.975);
  return interval;
}

// Whether both are of the same rows of the same set, as far as what does not depend on the model
// tells: labels, and lengths of references.
bool AreOfSameSet(const RowValues& rows, const RowValues& other) {
  if (rows.rows != other.rows) return false;
  const auto are_alike = [&](std::string_view name, size_t place) {
    const RowValues::Column* const ours = rows.Find(name);
    const RowValues::Column* const theirs = other.Find(name);
    if (ours == nullptr || theirs == nullptr) return true;
    if (ours->width != theirs->width) return false;
    const auto width = static_cast<size_t>(ours->width);
    for (size_t i = place; i < ours->values.size(); i += width) {
      if (ours->values[i] != theirs->values[i]) return false;
    }
    return true;
  };
  constexpr size_t kReferenceLength = 1;
  return are_alike(kLabelColumn, 0) && are_alike(kBleuColumn, kReferenceLength);
}

}  // namespace

std::optional<Interval> IntervalOf(const RowValues& rows, std::string_view metric) {
  const std::optional<Summed> summed = SummedOf(rows, metric);
  if (!summed) return std::nullopt;
  return Bootstrap(summed->rows(), summed->width,
                   [&](std::span<const size_t> drawn) { return MetricOfRows(*summed, drawn); });
}

std::optional<Interval> DifferenceOf(const RowValues& rows, const RowValues& other,
                                     std::string_view metric) {
  if (!AreOfSameSet(rows, other)) return std::nullopt;
  const std::optional<Summed> ours = SummedOf(rows, metric);
  const std::optional<Summed> theirs = SummedOf(other, metric);
  if (!ours || !theirs) return std::nullopt;
  return Bootstrap(ours->rows(), 2 * ours->width, [&](std::span<const size_t> drawn) {
    return MetricOfRows(*ours, drawn) - MetricOfRows(*theirs, drawn);
  });
}

}  // namespace dtrain
