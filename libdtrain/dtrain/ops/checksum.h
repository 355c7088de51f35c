// checksum.h - one number of a tensor's bits, to compare replicas by.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_CHECKSUM_H_
#define DTRAIN_OPS_CHECKSUM_H_

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

// sum: [1], int64 = sum over i of bits(x[i]) * (2 i + 1), modulo 2^64, of a contiguous float32
// tensor: the same on every device and with any number of threads. One changed element always
// changes it, as 2 i + 1 is odd; elements that change places do.
void Checksum(const Tensor& x, Tensor& sum, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_CHECKSUM_H_
