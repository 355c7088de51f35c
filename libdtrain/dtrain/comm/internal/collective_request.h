// collective_request.h - describes a submitted tensor, and compares the requests of all ranks.
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
#include "dtrain/device/tensor.h"

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
// The name of joins. No tensor may have it.
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
  std::vector<Item> items{};      // one tensor, or the tensors of a group
  std::vector<int64_t> splits{};  // for an all-to-all: the rows for each rank
  // Why this rank cannot take part, or "". For kShutdown: the reason.
  std::string refusal{};

  // The request as bytes, for Read(). Equal requests have equal bytes.
  std::string Text() const;
  // Takes one request from the front of *text.
  static CollectiveRequest Read(std::string_view* text);
};

// A collective that all ranks have submitted: what to do, or why it fails.
struct AgreedCollective {
  CollectiveRequest request;  // that of the lowest rank that submitted it
  // By rank: the first extents of an all-gather, the splits of an all-to-all.
  std::vector<std::vector<int64_t>> rows;
  std::string error;         // the same on every rank, or ""
  bool usage_error = false;  // the error is the caller's, no disagreement
};

// Compares the requests that ranks submitted under one name. Absent ranks have joined.
AgreedCollective Agree(const std::map<int, CollectiveRequest>& by_rank,
                       std::span<const int> job_ranks);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_COLLECTIVE_REQUEST_H_
