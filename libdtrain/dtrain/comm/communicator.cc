// communicator.cc - what all communicators share: topology, options, heartbeat, records.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/communicator.h"

#include "dtrain/comm/flight_records.h"
#include "dtrain/comm/heartbeat.h"

namespace dtrain {

std::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kBitAnd:
      return "bitwise and";
  }
  return "?";
}

Communicator::Communicator(int rank, std::vector<std::string> hosts,
                           const CommunicatorOptions& options)
    : topology_(rank, std::move(hosts)),
      options_(options),
      heartbeat_(std::make_shared<Heartbeat>()),
      records_(std::make_shared<FlightRecords>(options.record_directory)) {}

Communicator::Communicator(const Communicator& whole, std::span<const int> ranks)
    : topology_(whole.topology_.Group(ranks)),
      options_(whole.options_),
      heartbeat_(whole.heartbeat_),
      records_(whole.records_) {
  if (options_.algorithm == AllReduceAlgorithm::kMeasure) {
    options_.algorithm = AllReduceAlgorithm::kAuto;  // measuring pays for all ranks only
  }
}

const std::shared_ptr<Heartbeat>& HeartbeatOf(const Communicator& comm) { return comm.heartbeat_; }

const std::shared_ptr<FlightRecords>& RecordsOf(const Communicator& comm) { return comm.records_; }

}  // namespace dtrain
