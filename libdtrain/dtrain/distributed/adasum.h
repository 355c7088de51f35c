// adasum.h - joins the ranks' gradients: what they agree on is averaged, the rest is added.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_RETURN_IF_ERROR(Adasum(gradients, environment->World()));
//
// Two gradients a and b of one parameter become (Maleki et al. 2021, "Scaling distributed training
// with adaptive summation", equation 3)
//   (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b
// which is a + b where they are orthogonal and their mean where they are equal, so that the rate of
// one rank serves for many. Ranks join in pairs, then pairs of pairs. Each rank sends its gradients
// log2(ranks) times: for large numbers of ranks on slow networks sum within hosts first
// (Communicator::NodeGroup) and join across them.
#ifndef DTRAIN_DISTRIBUTED_ADASUM_H_
#define DTRAIN_DISTRIBUTED_ADASUM_H_

#include <span>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

// In place and collective: the same tensors, float32 in host memory, contiguous, on all ranks; each
// is joined by itself. The result has the same bits everywhere. UsageError, on every rank, where
// their number is no power of two.
Status Adasum(std::span<const Tensor> gradients, Communicator& comm);

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_ADASUM_H_
