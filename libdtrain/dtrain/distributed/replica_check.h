// replica_check.h - tells whether tensors still have the same bits on all ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_RETURN_IF_ERROR(CheckReplicas(model.parameters(), "after update 1200", comm,
//                                    ctx.stream()));
//
// Data-parallel ranks hold the same weights: sums over ranks have the same bits everywhere. Faulty
// memory, other software on a host, or a race make them drift apart, which no loss shows for long.
#ifndef DTRAIN_DISTRIBUTED_REPLICA_CHECK_H_
#define DTRAIN_DISTRIBUTED_REPLICA_CHECK_H_

#include <initializer_list>
#include <span>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

// InternalError on every rank, naming the ranks that differ from most others, where the tensors'
// bits are not the same on all ranks. Costs one pass over the tensors and one small message.
Status CheckReplicas(std::span<const Tensor> tensors, std::string_view when, Communicator& comm);
inline Status CheckReplicas(std::initializer_list<Tensor> tensors, std::string_view when,
                            Communicator& comm) {
  return CheckReplicas(std::span<const Tensor>(tensors.begin(), tensors.size()), when, comm);
}
// The same of float32 weights, by a checksum taken on their device (ops/checksum.h), after what
// `stream` has been given; names the first parameter that differs as well.
Status CheckReplicas(ParameterSet& parameters, std::string_view when, Communicator& comm,
                     Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_REPLICA_CHECK_H_
