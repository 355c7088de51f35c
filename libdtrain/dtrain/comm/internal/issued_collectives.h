// issued_collectives.h - what a rank has issued on its GPU, compared with the other ranks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_ISSUED_COLLECTIVES_H_
#define DTRAIN_COMM_INTERNAL_ISSUED_COLLECTIVES_H_

#include <array>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <utility>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/nccl_phases.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/stream_order.h"

namespace dtrain::internal {

class IssuedCollectives {
 public:
  // The numbers by which ranks compare what they have issued. It is sent as plain bytes.
  struct Summary {
    int64_t number = 0;   // of collectives
    uint64_t digest = 0;  // of their kinds, sizes and types
    std::array<char, 48> last{};
  };

  // Notes the calls before they are launched.
  void Add(std::span<const NcclCall> calls);
  // The calls of the last Add() are in `stream`.
  void MarkLaunched(const Stream& stream) { in_flight_.emplace_back(number_, last_, stream); }
  // Forgets what has arrived. True if something has.
  bool Reap();

  bool all_arrived() const { return in_flight_.empty(); }
  // The last one issued.
  const std::string& last() const { return last_; }
  // The oldest one that has not arrived, or else the last one issued.
  const std::string& current() const {
    return in_flight_.empty() ? last_ : in_flight_.front().name;
  }
  // For a message about a wait for current(). missing: the ranks that have not come to the same
  // wait; if empty, all have issued it.
  std::string DescribeWait(double seconds, const RankTopology& topology, const std::string& device,
                           std::span<const int> missing) const;

  Summary Summarize() const;
  // Compares the summaries of all ranks. Returns "" or how the first rank and another one differ.
  static std::string FindDifference(std::span<const Summary> all, const RankTopology& topology);

 private:
  struct InFlight {
    InFlight(int64_t last, std::string what, const Stream& stream)
        : number(last), name(std::move(what)), arrived(stream) {}

    int64_t number;
    std::string name;
    StreamMark arrived;  // follows everything that the stream was given before
  };

  std::list<InFlight> in_flight_;
  int64_t number_ = 0;
  uint64_t digest_ = 0;
  std::string last_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_ISSUED_COLLECTIVES_H_
