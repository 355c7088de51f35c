// wire_values.cc - rounds, sends and widens.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/wire_values.h"

#include "dtrain/distributed/internal/wire_format.h"

namespace dtrain::internal {

WireValues::WireValues(DType wire_type, int ranks, int64_t count)
    : wire_type_(wire_type), ranks_(ranks), values_(static_cast<size_t>(count)) {
  if (wire_type_ != DType::kFloat32) wire_.resize(values_.size() * SizeOf(wire_type_));
}

void WireValues::Round() {
  if (wire_type_ == DType::kFloat32) return;
  RoundToWire(values_.data(), static_cast<int64_t>(values_.size()), wire_type_, ranks_,
              wire_.data());
}

std::unique_ptr<Handle> WireValues::StartSum(Communicator& comm) {
  if (values_.empty()) return nullptr;
  void* const data = wire_type_ == DType::kFloat32 ? static_cast<void*>(values_.data())
                                                   : static_cast<void*>(wire_.data());
  return comm.StartAllReduce(data, static_cast<int64_t>(values_.size()), wire_type_,
                             ReduceOp::kSum);
}

void WireValues::Widen() {
  if (wire_type_ == DType::kFloat32) return;
  WidenFromWire(wire_.data(), static_cast<int64_t>(values_.size()), wire_type_, ranks_,
                values_.data());
}

}  // namespace dtrain::internal
