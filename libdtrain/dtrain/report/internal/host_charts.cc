// host_charts.cc - curves of rank 0's host: processors, memory, networks, disks.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>

#include "dtrain/report/internal/page_parts.h"
#include "dtrain/report/number_text.h"

namespace dtrain::internal {
namespace {

constexpr double kMega = 1e6;
constexpr double kGiga = 1e9;

// The updates that were done when each sample was taken.
std::vector<double> UpdatesOfSamples(const RunFacts& run) {
  std::vector<CurvePoint> clock;
  for (const StepFacts& step : run.steps) {
    const bool is_later = clock.empty() || step.time > clock.back().x;
    if (std::isfinite(step.time) && is_later) {
      clock.push_back({step.time, static_cast<double>(step.step)});
    }
  }
  std::vector<double> updates;
  if (clock.empty()) return updates;
  // Before the first record and after a restart the run began or went on.
  clock.insert(clock.begin(), {run.host.front().time - 1.0, 0.0});
  for (const HostFacts& sample : run.host) updates.push_back(Interpolated(clock, sample.time));
  return updates;
}

// By how much a sum rises a second, at each sample but the first; NaN where it began anew.
std::vector<double> Rates(const std::vector<HostFacts>& host,
                          const std::function<double(const HostFacts&)>& sum) {
  std::vector<double> rates = {kNoNumber};
  for (size_t i = 1; i < host.size(); ++i) {
    const double rise = sum(host[i]) - sum(host[i - 1]);
    rates.push_back(rise >= 0.0 ? rise / (host[i].time - host[i - 1].time) : kNoNumber);
  }
  return rates;
}

double RanksCpu(const HostFacts& sample) {
  double sum = 0.0;
  for (const HostFacts::Rank& rank : sample.ranks) sum += rank.cpu;
  return sum;
}

double RanksMemory(const HostFacts& sample) {
  double sum = 0.0;
  for (const HostFacts::Rank& rank : sample.ranks) sum += rank.memory;
  return sum;
}

HostFacts::Network NetworkOf(const HostFacts& sample, const std::string& name) {
  for (const HostFacts::Network& network : sample.networks) {
    if (network.name == name) return network;
  }
  return {};
}

// The interface that carried most.
std::string BusiestNetwork(const std::vector<HostFacts>& host) {
  std::string busiest;
  double most = -1.0;
  for (const HostFacts::Network& network : host.back().networks) {
    const HostFacts::Network first = NetworkOf(host.front(), network.name);
    const double carried = network.received + network.sent - first.received - first.sent;
    if (carried > most) {
      most = carried;
      busiest = network.name;
    }
  }
  return busiest;
}

// Makes series of the samples of one run.
class HostSeries {
 public:
  HostSeries(const RunFacts& run, size_t buckets)
      : axes_(run), updates_(UpdatesOfSamples(run)), buckets_(buckets) {}

  bool empty() const { return updates_.empty(); }
  void Add(const std::string& name, const std::string& look, const std::vector<double>& values,
           double factor, Chart& chart) const {
    // A value that is missing is no broken one: it leaves no mark.
    std::vector<double> updates;
    std::vector<double> kept;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) continue;
      updates.push_back(updates_[i]);
      kept.push_back(factor * values[i]);
    }
    ChartSeries series = MakeSeries(axes_, updates, kept, buckets_);
    series.name = name;
    series.look = look;
    chart.series.push_back(std::move(series));
  }

 private:
  RunAxes axes_;
  std::vector<double> updates_;
  size_t buckets_;
};

std::vector<double> Values(const std::vector<HostFacts>& host,
                           const std::function<double(const HostFacts&)>& value) {
  std::vector<double> values;
  for (const HostFacts& sample : host) values.push_back(value(sample));
  return values;
}

Chart ProcessorChart(const std::vector<HostFacts>& host, const HostSeries& series) {
  Chart chart{.id = "cpu", .title = "Processor cores in use", .zero = true};
  const std::vector<double> ranks = Rates(host, RanksCpu);
  std::vector<double> others = Rates(host, [](const HostFacts& s) { return s.cpu_busy; });
  for (size_t i = 0; i < others.size(); ++i) others[i] = std::max(0.0, others[i] - ranks[i]);
  for (size_t i = 0; i < others.size(); ++i) {
    if (!std::isfinite(ranks[i])) others[i] = kNoNumber;
  }
  series.Add("by the ranks here", "s1", ranks, 1.0, chart);
  series.Add("by other programs", "s2", others, 1.0, chart);
  const std::vector<double> cores = Rates(host, [](const HostFacts& s) { return s.cpu_total; });
  std::vector<double> finite;
  std::copy_if(cores.begin(), cores.end(), std::back_inserter(finite),
               [](double value) { return std::isfinite(value); });
  if (!finite.empty()) {
    const double all = std::round(Median(std::move(finite)));
    chart.limits.push_back({all, Thousands(all) + " cores"});
  }
  return chart;
}

Chart MemoryChart(const std::vector<HostFacts>& host, const HostSeries& series) {
  Chart chart{.id = "memory", .title = "Memory of the host in GB", .unit = " GB", .zero = true};
  series.Add("used by all", "s2",
             Values(host, [](const HostFacts& s) { return s.memory_total - s.memory_available; }),
             1.0 / kGiga, chart);
  series.Add("the ranks here", "s1", Values(host, RanksMemory), 1.0 / kGiga, chart);
  series.Add("page cache", "s4", Values(host, [](const HostFacts& s) { return s.page_cache; }),
             1.0 / kGiga, chart);
  const double total = host.back().memory_total / kGiga;
  if (std::isfinite(total)) chart.limits.push_back({total, ShortNumber(total) + " GB in all"});
  return chart;
}

Chart NetworkChart(const std::vector<HostFacts>& host, const HostSeries& series) {
  Chart chart{.id = "network", .title = "Network in MB/s", .unit = " MB/s", .zero = true};
  const std::string name = BusiestNetwork(host);
  if (name.empty()) return chart;
  series.Add(name + " received", "s1",
             Rates(host, [&](const HostFacts& s) { return NetworkOf(s, name).received; }),
             1.0 / kMega, chart);
  series.Add(name + " sent", "s3",
             Rates(host, [&](const HostFacts& s) { return NetworkOf(s, name).sent; }), 1.0 / kMega,
             chart);
  chart.note = "The interface that carried most. 125 MB/s are 1 Gb/s.";
  return chart;
}

Chart DiskChart(const std::vector<HostFacts>& host, const HostSeries& series) {
  Chart chart{.id = "disk", .title = "Disks in MB/s", .unit = " MB/s", .zero = true};
  series.Add("read", "s1", Rates(host, [](const HostFacts& s) { return s.disk_read; }), 1.0 / kMega,
             chart);
  series.Add("written", "s3", Rates(host, [](const HostFacts& s) { return s.disk_written; }),
             1.0 / kMega, chart);
  return chart;
}

}  // namespace

std::vector<Chart> HostCharts(const RunReport& report, size_t buckets) {
  const std::vector<HostFacts>& host = report.run.host;
  if (host.size() < 2) return {};
  const HostSeries series(report.run, buckets);
  if (series.empty()) return {};
  return {ProcessorChart(host, series), MemoryChart(host, series), NetworkChart(host, series),
          DiskChart(host, series)};
}

}  // namespace dtrain::internal
