// wire_values.h - float32 values that travel in the wire type.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_WIRE_VALUES_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_WIRE_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/communicator.h"

namespace dtrain::internal {

class WireValues {
 public:
  // ranks: RoundToWire() divides float16 values by this number.
  WireValues(DType wire_type, int ranks, int64_t count);

  float* data() { return values_.data(); }
  std::vector<float>& values() { return values_; }
  // Rounds the values for the wire. Does nothing in float32.
  void Round();
  // Starts the sum of the values over the ranks of `comm`. Null if there are none.
  std::unique_ptr<Handle> StartSum(Communicator& comm);
  // Takes what is on the wire over into the values.
  void Widen();

 private:
  DType wire_type_;
  int ranks_;
  std::vector<float> values_;
  std::vector<std::byte> wire_;  // empty in float32
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_WIRE_VALUES_H_
