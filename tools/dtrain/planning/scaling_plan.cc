// scaling_plan.cc - the formulas of scaling_plan.h.
// SPDX-License-Identifier: Apache-2.0
#include "planning/scaling_plan.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "dtrain/base/check.h"
#include "dtrain/distributed/internal/low_rank.h"

namespace dtrain {
namespace {

// Bytes read and written per element: a 16-bit wire is written from and widened to float32;
// PowerSGD goes through the gradient and its error five times, and multiplies it by a factor of its
// rank's columns four times.
constexpr double kRoundingBytes = 12.0;
constexpr double kPowerSgdBytes = 20.0;
constexpr double kPowerSgdFlopsPerColumn = 8.0;
// Where the ranks of a node share the compression: a float that another rank adds is copied to
// shared memory and added from there (20 bytes), and its sum is copied back (16).
constexpr double kSharedBytes = 36.0;
// What of it runs while other buckets travel between hosts: a part of rounding and widening; of
// PowerSGD's, all that follows its first factors. Less where compression is shared: sums of a host
// are gathered as well. All of them no more than a part of the time that backward does not hide of
// the network, in which there is not always something to compute. Measured
// (docs/dev/records/networks.md).
constexpr double kRoundingBesideNetwork = 1.0 / 3.0;
constexpr double kPowerSgdBesideNetwork = 2.0 / 3.0;
constexpr double kSharedBesideNetwork = 1.0 / 2.0;
constexpr double kNetworkBesideEncoding = 2.0 / 5.0;

// What an exchange costs beside its bytes.
struct Steps {
  double hops = 0.0;      // one after another, to other nodes
  double messages = 0.0;  // of a rank
  double host_hops = 0.0;
};

Steps StepsOf(PlanAlgorithm algorithm, int nodes, int ranks_per_node) {
  const double ranks = static_cast<double>(nodes) * ranks_per_node;
  if (nodes == 1) return {.host_hops = ranks > 1 ? 2.0 : 0.0};
  switch (algorithm) {
    case PlanAlgorithm::kFlat:
      return {.hops = 2.0, .messages = 2.0 * (ranks - 1)};
    case PlanAlgorithm::kRing:
      return {.hops = 2.0 * (ranks - 1), .messages = 2.0 * (ranks - 1)};
    case PlanAlgorithm::kHierarchical:
      return {
          .hops = 2.0, .messages = 2.0 * (nodes - 1), .host_hops = ranks_per_node > 1 ? 2.0 : 0.0};
  }
  return {};
}

// Bytes of a rank that stay within its node.
double HostBytes(PlanAlgorithm algorithm, int nodes, int ranks_per_node, double bytes) {
  const double ranks = static_cast<double>(nodes) * ranks_per_node;
  const double others = ranks_per_node - 1;
  return 2.0 * others / (algorithm == PlanAlgorithm::kFlat ? ranks : ranks_per_node) * bytes;
}

// A bucket in the two stages it goes through: within the node, and between nodes.
struct BucketTime {
  double ready = 0.0;
  double host = 0.0;
  double network = 0.0;
  double latency = 0.0;  // part of the two
};

bool IsFactored(const PlanParameter& parameter, int power_sgd_rank) {
  return power_sgd_rank > 0 &&
         internal::PaysAtRank({parameter.rows, parameter.columns}, power_sgd_rank);
}

// Whether the ranks of a node add whole gradients and each compresses its share.
bool SharesCompression(const PlanJob& job, const PlanWay& way) {
  return way.power_sgd_rank > 0 && way.algorithm == PlanAlgorithm::kHierarchical && job.nodes > 1;
}

// Of a rank, for rounding, widening and PowerSGD's products.
double EncodeSeconds(const PlanJob& job, const PlanWay& way) {
  const double shares = SharesCompression(job, way) ? job.ranks_per_node : 1.0;
  const double shared = kSharedBytes * (shares - 1.0) / shares;
  double bytes = 0.0;
  double flops = 0.0;
  for (const PlanBucket& bucket : job.buckets) {
    for (const PlanParameter& parameter : bucket.parameters) {
      const auto elements = static_cast<double>(parameter.elements());
      bytes += shared * elements;
      if (IsFactored(parameter, way.power_sgd_rank)) {
        const PowerSgdWork work = PowerSgdWorkOf(parameter.elements(), way.power_sgd_rank);
        bytes += work.memory_bytes / shares;
        flops += work.flops / shares;
      } else if (way.wire_type != DType::kFloat32) {
        bytes += kRoundingBytes * elements / shares;
      }
    }
  }
  return bytes / job.times.memory_bytes_per_second + flops / job.times.low_rank_flops_per_second;
}

// The share of EncodeSeconds() that may run beside the network.
double BesideNetwork(const PlanJob& job, const PlanWay& way) {
  if (job.nodes == 1) return 0.0;
  if (way.power_sgd_rank == 0) return kRoundingBesideNetwork;
  return SharesCompression(job, way) ? kSharedBesideNetwork : kPowerSgdBesideNetwork;
}

BucketTime TimeOf(const PlanJob& job, const PlanWay& way, const PlanBucket& bucket) {
  const PlanNetwork& network = job.network;
  const double bytes = static_cast<double>(TravellingElements(bucket, way.power_sgd_rank)) *
                       static_cast<double>(SizeOf(way.wire_type));
  // Counted with the encoding.
  const double host_bytes = SharesCompression(job, way) ? 0.0 : bytes;
  const Steps steps = StepsOf(way.algorithm, job.nodes, job.ranks_per_node);
  // PowerSGD's second factor needs the sum of the first.
  const double rounds = way.power_sgd_rank > 0 ? 2.0 : 1.0;
  const double far =
      rounds * (steps.hops * network.latency_seconds + steps.messages * network.message_seconds);
  const double near =
      (SharesCompression(job, way) ? 1.0 : rounds) * steps.host_hops * network.host_latency_seconds;
  return {.ready = bucket.ready * job.times.backward_seconds,
          .host = near + HostBytes(way.algorithm, job.nodes, job.ranks_per_node, host_bytes) /
                             network.host_bytes_per_second,
          .network = far + NetworkBytes(way.algorithm, job.nodes, job.ranks_per_node, bytes) /
                               network.bytes_per_second,
          .latency = far + near};
}

// When the last bucket has landed, if bucket i may start at ready_i * `pace`.
double Landing(const std::vector<BucketTime>& buckets, double pace) {
  double host_free = 0.0;
  double network_free = 0.0;
  double landed = 0.0;
  for (const BucketTime& bucket : buckets) {
    // Half of the way within the node comes before the network, half after it.
    host_free = std::max(host_free, bucket.ready * pace) + bucket.host / 2;
    network_free = std::max(network_free, host_free) + bucket.network;
    landed = network_free + bucket.host / 2;
  }
  return landed;
}

std::string LimitOf(const PlannedStep& step, const std::vector<BucketTime>& buckets) {
  if (step.exposed_seconds + step.encode_seconds < 0.05 * step.seconds) return "compute";
  if (step.encode_seconds > step.exposed_seconds) return "encoding";
  BucketTime sum;
  for (const BucketTime& bucket : buckets) {
    sum.host += bucket.host;
    sum.network += bucket.network;
    sum.latency += bucket.latency;
  }
  if (sum.latency > 0.5 * (sum.host + sum.network)) return "latency";
  return sum.host > sum.network ? "host memory" : "network";
}

}  // namespace

std::string PlanWay::Name() const {
  std::string name = algorithm == PlanAlgorithm::kFlat   ? "flat"
                     : algorithm == PlanAlgorithm::kRing ? "ring"
                                                         : "hierarchical";
  name += wire_type == DType::kFloat32    ? " fp32"
          : wire_type == DType::kBFloat16 ? " bf16"
                                          : " fp16";
  if (accumulation > 1) absl::StrAppend(&name, ", ", accumulation, " micro-batches");
  if (power_sgd_rank > 0) absl::StrAppend(&name, ", PowerSGD ", power_sgd_rank);
  return name;
}

int64_t TravellingElements(const PlanBucket& bucket, int power_sgd_rank) {
  return std::accumulate(bucket.parameters.begin(), bucket.parameters.end(), int64_t{0},
                         [&](int64_t sum, const PlanParameter& parameter) {
                           return sum + (IsFactored(parameter, power_sgd_rank)
                                             ? power_sgd_rank * (parameter.rows + parameter.columns)
                                             : parameter.elements());
                         });
}

PowerSgdWork PowerSgdWorkOf(int64_t elements, int power_sgd_rank) {
  const auto count = static_cast<double>(elements);
  return {.memory_bytes = kPowerSgdBytes * count,
          .flops = kPowerSgdFlopsPerColumn * power_sgd_rank * count};
}

double NetworkBytes(PlanAlgorithm algorithm, int nodes, int ranks_per_node, double bytes) {
  const double m = nodes;
  const double g = ranks_per_node;
  if (nodes == 1) return 0.0;
  switch (algorithm) {
    case PlanAlgorithm::kFlat:
      return 2.0 * g * (m * g - g) / (m * g) * bytes;
    case PlanAlgorithm::kRing:
      return 2.0 * (m * g - 1) / (m * g) * bytes;
    case PlanAlgorithm::kHierarchical:
      return 2.0 * (m - 1) / m * bytes;
  }
  return 0.0;
}

PlannedStep PlanStep(const PlanJob& job, const PlanWay& way) {
  DT_CHECK(job.nodes >= 1 && job.ranks_per_node >= 1 && way.accumulation >= 1);
  const PlanTimes& times = job.times;
  PlannedStep step;
  step.compute_seconds =
      way.accumulation * (times.forward_seconds + times.backward_seconds) + times.update_seconds;
  step.seconds = step.compute_seconds;
  step.limit = "compute";
  if (job.ranks() == 1) return step;
  std::vector<BucketTime> buckets;
  for (const PlanBucket& bucket : job.buckets) {
    buckets.push_back(TimeOf(job, way, bucket));
    step.network_bytes +=
        NetworkBytes(way.algorithm, job.nodes, job.ranks_per_node,
                     static_cast<double>(TravellingElements(bucket, way.power_sgd_rank) *
                                         static_cast<int64_t>(SizeOf(way.wire_type))));
  }
  step.exchange_seconds = Landing(buckets, 0.0);
  const double least = std::max(0.0, Landing(buckets, 1.0) - times.backward_seconds);
  step.exposed_seconds = step.exchange_seconds - times.overlap * (step.exchange_seconds - least);
  const double encode = EncodeSeconds(job, way);
  step.encode_seconds = encode - std::min(BesideNetwork(job, way) * encode,
                                          kNetworkBesideEncoding * step.exposed_seconds);
  step.seconds += step.exposed_seconds + step.encode_seconds;
  step.limit = LimitOf(step, buckets);
  return step;
}

std::vector<PlanWay> AllWays(const PlanJob& job, PlanAlgorithm flat, int power_sgd_rank) {
  std::vector<PlanWay> ways;
  for (const PlanAlgorithm algorithm : {flat, PlanAlgorithm::kHierarchical}) {
    const bool hierarchical = algorithm == PlanAlgorithm::kHierarchical;
    if (hierarchical && (job.nodes == 1 || job.ranks_per_node == 1)) continue;
    for (const DType wire : {DType::kFloat32, DType::kBFloat16}) {
      for (const int accumulation : {1, 4}) {
        ways.push_back({.algorithm = algorithm, .wire_type = wire, .accumulation = accumulation});
        if (power_sgd_rank == 0) continue;
        ways.push_back(ways.back());
        ways.back().power_sgd_rank = power_sgd_rank;
      }
    }
  }
  return ways;
}

}  // namespace dtrain
