// scaling_plan_text.cc - a plan for people and for programs.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/internal/json_text.h"
#include "planning/scaling_plan.h"

namespace dtrain {
namespace {

int64_t ElementsOf(const PlanJob& job) {
  int64_t elements = 0;
  for (const PlanBucket& bucket : job.buckets) elements += TravellingElements(bucket, 0);
  return elements;
}

// Of a batch: an update of k micro-batches does k times the work.
double SecondsPerBatch(const PlanJob& job, const PlanWay& way) {
  return PlanStep(job, way).seconds / way.accumulation;
}

// The fastest of the ways that take no more micro-batches than one, and of all.
std::string Advice(const PlanJob& job, const std::vector<PlanWay>& ways) {
  const auto faster = [&](const PlanWay& a, const PlanWay& b) {
    return SecondsPerBatch(job, a) < SecondsPerBatch(job, b);
  };
  std::vector<PlanWay> same_batch;
  std::copy_if(ways.begin(), ways.end(), std::back_inserter(same_batch),
               [](const PlanWay& way) { return way.accumulation == 1 && way.power_sgd_rank == 0; });
  const double plain = SecondsPerBatch(job, ways.front());
  std::string text;
  const auto add = [&](const char* what, const std::vector<PlanWay>& among) {
    if (among.empty()) return;
    const PlanWay& best = *std::min_element(among.begin(), among.end(), faster);
    absl::StrAppendFormat(&text, "%-42s %s, %.2f x %s\n", what, best.Name(),
                          plain / SecondsPerBatch(job, best), ways.front().Name());
  };
  add("fastest with whole gradients, same batch", same_batch);
  add("fastest of all", ways);
  return text;
}

}  // namespace

std::string PlanText(const PlanJob& job, const std::vector<PlanWay>& ways) {
  const double elements = static_cast<double>(ElementsOf(job));
  const double batch_seconds = job.times.forward_seconds + job.times.backward_seconds;
  std::string text = absl::StrFormat(
      "job      %d node%s x %d rank%s, %.2f M parameters, %.1f MB of gradients in %d buckets\n"
      "network  %.1f MB/s each way and %.0f us between nodes, %.1f MB/s within\n"
      "compute  %.4g s for a rank's share of a batch\n\n"
      "%-46s %9s %10s %10s %8s  %s\n",
      job.nodes, job.nodes == 1 ? "" : "s", job.ranks_per_node, job.ranks_per_node == 1 ? "" : "s",
      elements / 1e6, 4 * elements / 1e6, static_cast<int>(job.buckets.size()),
      job.network.bytes_per_second / 1e6, 1e6 * job.network.latency_seconds,
      job.network.host_bytes_per_second / 1e6, batch_seconds, "", "update", "per batch",
      "MB/s/node", "busy", "limit");
  for (const PlanWay& way : ways) {
    const PlannedStep step = PlanStep(job, way);
    absl::StrAppendFormat(&text, "%-46s %7.3g s %8.3g s %10.1f %6.0f %%  %s\n", way.Name(),
                          step.seconds, step.seconds / way.accumulation,
                          step.network_bytes_per_second() / 1e6, 100.0 * step.efficiency(),
                          step.limit);
  }
  absl::StrAppend(&text, "\n", Advice(job, ways));
  for (const std::string& note : job.notes) absl::StrAppend(&text, "note  ", note, "\n");
  return text;
}

std::string PlanJson(const PlanJob& job, const std::vector<PlanWay>& ways) {
  nlohmann::ordered_json json = {{"nodes", job.nodes},
                                 {"ranks_per_node", job.ranks_per_node},
                                 {"parameters", ElementsOf(job)},
                                 {"buckets", job.buckets.size()},
                                 {"network",
                                  {{"bytes_per_second", job.network.bytes_per_second},
                                   {"latency_seconds", job.network.latency_seconds},
                                   {"host_bytes_per_second", job.network.host_bytes_per_second},
                                   {"host_latency_seconds", job.network.host_latency_seconds}}},
                                 {"notes", job.notes}};
  for (const PlanWay& way : ways) {
    const PlannedStep step = PlanStep(job, way);
    json["ways"].push_back({{"name", way.Name()},
                            {"algorithm", way.algorithm == PlanAlgorithm::kFlat   ? "flat"
                                          : way.algorithm == PlanAlgorithm::kRing ? "ring"
                                                                                  : "hierarchical"},
                            {"wire_bytes", SizeOf(way.wire_type)},
                            {"accumulation", way.accumulation},
                            {"power_sgd_rank", way.power_sgd_rank},
                            {"seconds", step.seconds},
                            {"compute_seconds", step.compute_seconds},
                            {"exchange_seconds", step.exchange_seconds},
                            {"exposed_seconds", step.exposed_seconds},
                            {"encode_seconds", step.encode_seconds},
                            {"network_bytes", step.network_bytes},
                            {"network_bytes_per_second", step.network_bytes_per_second()},
                            {"efficiency", step.efficiency()},
                            {"limit", step.limit}});
  }
  return internal::JsonText(json);
}

}  // namespace dtrain
