// checksum.h - a checksum of a tensor's bits, to compare replicas.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_CHECKSUM_H_
#define DTRAIN_OPS_CHECKSUM_H_

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

// sum: [1], int64. It becomes the sum over i of bits(x[i]) * (2 i + 1), modulo 2^64, for a
// contiguous float32 tensor. The result is the same on every device and with any number of threads.
// A change of one element always changes it, because 2 i + 1 is odd; so does swapping two different
// elements.
void Checksum(const Tensor& x, Tensor& sum, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_CHECKSUM_H_
