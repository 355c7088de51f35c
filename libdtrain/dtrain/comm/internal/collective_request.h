// collective_request.h - what a rank says of a tensor it submits, and what ranks must agree on.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_COLLECTIVE_REQUEST_H_
#define DTRAIN_COMM_INTERNAL_COLLECTIVE_REQUEST_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/device.h"
#include "dtrain/device/shape.h"

namespace dtrain::internal {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kAllGather,
  kBroadcast,
  kReduceScatter,
  kAllToAll,
  kBarrier,
  kJoin,
  kShutdown
};
// "all-reduce"
std::string_view Name(CollectiveKind kind);
// Of joins; no name for a tensor.
inline constexpr char kJoinName[] = "Join()";

struct CollectiveRequest {
  struct Item {
    DType dtype = DType::kFloat32;
    DeviceType device = DeviceType::kCpu;
    Shape shape;
  };

  std::string name{};
  CollectiveKind kind = CollectiveKind::kAllReduce;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1;
  double postscale = 1;
  int root = 0;
  std::vector<Item> items{};      // one, or those of a group
  std::vector<int64_t> splits{};  // of an all-to-all: rows to each rank
  std::string refusal{};          // why this rank could not take part; of kShutdown: the reason

  // Bytes that Read() makes a request of again; equal for equal requests.
  std::string Text() const;
  // Takes one request from the front of *text.
  static CollectiveRequest Read(std::string_view* text);
};

// An agreed collective: what to do, or why not.
struct AgreedCollective {
  CollectiveRequest request;  // of the lowest rank that submitted it
  // By rank: first extents of an all-gather, splits of an all-to-all.
  std::vector<std::vector<int64_t>> rows;
  std::string error;         // for every rank
  bool usage_error = false;  // of the caller, not a disagreement
};

// Compares what ranks submitted under one name; ranks that are absent have joined.
AgreedCollective Agree(const std::map<int, CollectiveRequest>& by_rank,
                       std::span<const int> job_ranks);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_COLLECTIVE_REQUEST_H_
