// replica_check.h - checks that tensors have the same bits on all ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_RETURN_IF_ERROR(CheckReplicas(model.parameters(), "after update 1200", comm,
//                                    ctx.stream()));
//
// Data-parallel ranks hold the same weights, because sums over ranks have the same bits on all of
// them. Faulty memory, other software on a host, or a race can make them drift apart; the loss does
// not show it for a long time.
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

// Returns InternalError on every rank, which names the ranks that differ from most others, if bits
// differ. Costs one pass over the tensors and one small message. All ranks call it.
Status CheckReplicas(std::span<const Tensor> tensors, std::string_view when, Communicator& comm);
inline Status CheckReplicas(std::initializer_list<Tensor> tensors, std::string_view when,
                            Communicator& comm) {
  return CheckReplicas(std::span<const Tensor>(tensors.begin(), tensors.size()), when, comm);
}
// The same for float32 weights, by a checksum on their device (ops/checksum.h) after the work in
// `stream`. The error names the first parameter that differs as well.
Status CheckReplicas(ParameterSet& parameters, std::string_view when, Communicator& comm,
                     Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_REPLICA_CHECK_H_
