// scaling_plan.h - predicts an update's time on many hosts: compute, network, what hides what.
// SPDX-License-Identifier: Apache-2.0
//
//   const PlanJob job{.nodes = 2, .ranks_per_node = 2, .buckets = buckets, .times = times};
//   const PlannedStep step = PlanStep(job, {.algorithm = PlanAlgorithm::kHierarchical});
//
// With N ranks on m nodes of g = N / m ranks and S bytes of gradients on the wire, a node sends and
// receives, each way and per update,
//   flat          2 g (N - g) / N S    every rank exchanges slices with every other
//   ring          2 (N - 1) / N S      as NCCL's and Horovod's: one crossing each way per node
//   hierarchical  2 (m - 1) / m S      each byte crosses the network once per node
// and hierarchical PowerSGD encodes 1 / g of the gradients on each rank, which travel whole, in
// float32, through the node's memory.
// A bucket takes its hops' latency and its bytes at the node's speed; it starts when the backward
// pass has its gradients and the bucket before it has left:
//   f_i = max(f_{i-1}, r_i) + c_i,  exposed = max(0, f_last - T_backward),
//   T = k (T_forward + T_backward) + exposed + T_encode + T_update,
//   T_encode = E - min(share E, 2/5 exposed)
// for k micro-batches, of which the last one's backward pass overlaps (Li et al. 2020, PyTorch
// Distributed, section 3.2, describes the overlap). The share of the encoding E that runs beside
// the network is a third where that is rounding to 16 bits; of PowerSGD's two thirds, or half where
// the ranks of a node share the compression. Bytes are exact for this library
// (docs/dev/collective-algorithms.md); times are as good as the speeds that go in.
#ifndef DTRAIN_PLANNING_SCALING_PLAN_H_
#define DTRAIN_PLANNING_SCALING_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/dtype.h"

namespace dtrain {

struct PlanNetwork {
  double bytes_per_second = 117.5e6;   // payload of a node, each way: 1 Gb/s at an MTU of 1500
  double latency_seconds = 50e-6;      // of a message to another node
  double message_seconds = 2e-6;       // what each message of a step costs a rank beside that
  double host_bytes_per_second = 4e9;  // between ranks of a node, each way
  double host_latency_seconds = 5e-6;
};

// A gradient: a matrix, or with one row what travels whole: vectors and embeddings.
struct PlanParameter {
  int64_t rows = 1;
  int64_t columns = 0;

  int64_t elements() const { return rows * columns; }
};

struct PlanBucket {
  std::vector<PlanParameter> parameters;
  double ready = 1.0;  // share of the backward pass after which it may leave
};

// Of one micro-batch on a rank, of an update on it, and of its memory.
struct PlanTimes {
  double forward_seconds = 0.0;
  double backward_seconds = 0.0;
  double update_seconds = 0.0;
  // What a rank adds and rounds at: 16-bit wires, PowerSGD's errors and sums of a node.
  double memory_bytes_per_second = 10e9;
  double low_rank_flops_per_second = 80e9;  // of a rank, in PowerSGD's narrow products
  double overlap = 1.0;                     // share of what could hide behind backward that does
};

struct PlanJob {
  int nodes = 1;
  int ranks_per_node = 1;
  std::vector<PlanBucket> buckets;  // in the order in which backward completes them
  PlanTimes times;
  PlanNetwork network;
  std::vector<std::string> notes = {};  // what the figures do not say, a sentence each

  int ranks() const { return nodes * ranks_per_node; }
};

enum class PlanAlgorithm { kFlat, kRing, kHierarchical };

struct PlanWay {
  PlanAlgorithm algorithm = PlanAlgorithm::kHierarchical;
  DType wire_type = DType::kFloat32;
  int accumulation = 1;    // micro-batches per update
  int power_sgd_rank = 0;  // 0: whole gradients

  // "hierarchical bf16, 4 micro-batches, PowerSGD 4".
  std::string Name() const;
};

struct PlannedStep {
  double seconds = 0.0;  // of an update
  double compute_seconds = 0.0;
  double exchange_seconds = 0.0;  // of all buckets, alone
  double exposed_seconds = 0.0;   // of it, what compute does not hide
  double encode_seconds = 0.0;    // rounding, widening, PowerSGD's products: what adds to the step
  double network_bytes = 0.0;     // per node and update, each way
  std::string limit;              // "compute", "network", "latency", "host memory", "encoding"

  double efficiency() const { return compute_seconds / seconds; }
  double network_bytes_per_second() const { return network_bytes / seconds; }
};

// Elements that travel for a bucket: all, or with PowerSGD (Vogels et al. 2019) of rank r the two
// factors r (rows + columns) of each matrix that they at least halve.
int64_t TravellingElements(const PlanBucket& bucket, int power_sgd_rank);

// What PowerSGD costs a rank for a matrix, at PlanTimes' speeds, one after the other.
struct PowerSgdWork {
  double memory_bytes = 0.0;
  double flops = 0.0;
};
PowerSgdWork PowerSgdWorkOf(int64_t elements, int power_sgd_rank);

// Bytes that a node sends, and receives, for `bytes` of gradients.
double NetworkBytes(PlanAlgorithm algorithm, int nodes, int ranks_per_node, double bytes);

PlannedStep PlanStep(const PlanJob& job, const PlanWay& way);

// {flat or ring, hierarchical} x {fp32, bf16} x {1, 4 micro-batches} x {none, PowerSGD}; without
// hierarchical where a node has one rank or there is one node.
std::vector<PlanWay> AllWays(const PlanJob& job, PlanAlgorithm flat, int power_sgd_rank);

// For people: the job, a line for each way, and which one to take.
std::string PlanText(const PlanJob& job, const std::vector<PlanWay>& ways);
// One object; bytes, seconds.
std::string PlanJson(const PlanJob& job, const std::vector<PlanWay>& ways);

}  // namespace dtrain

#endif  // DTRAIN_PLANNING_SCALING_PLAN_H_
