// adasum.h - combines gradients adaptively: averages what ranks agree on and adds the rest.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_RETURN_IF_ERROR(Adasum(gradients, environment->World()));
//
// Two gradients a and b of one parameter become (Maleki et al. 2021, "Scaling distributed training
// with adaptive summation", equation 3)
//   (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b
// This is a + b if they are orthogonal, and their mean if they are equal. So the learning rate of
// one rank also serves many ranks. Ranks combine in pairs, then pairs of pairs. Each rank sends its
// gradients log2(ranks) times. With many ranks on a slow network, sum within hosts first
// (MakeHostGroup() in comm/groups.h) and combine across hosts.
#ifndef DTRAIN_DISTRIBUTED_ADASUM_H_
#define DTRAIN_DISTRIBUTED_ADASUM_H_

#include <span>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

// Combines each tensor in place. All ranks pass the same tensors: contiguous float32 in host
// memory. The results have the same bits on all ranks. Returns UsageError on every rank if the
// number of ranks is not a power of two.
Status Adasum(std::span<const Tensor> gradients, Communicator& comm);

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_ADASUM_H_
