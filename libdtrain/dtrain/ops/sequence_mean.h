// sequence_mean.h - the mean of each sequence's rows, which represents the sequence in classifiers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_SEQUENCE_MEAN_H_
#define DTRAIN_OPS_SEQUENCE_MEAN_H_

#include "dtrain/device/sequences.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

// y[s] = the mean of the rows of sequence s, summed in float32 and in order. x: [tokens, columns],
// y: [sequences, columns], of one floating-point type; rows may be strided. No sequence may be
// empty. On a GPU the sequences must have device offsets.
void SequenceMeanForward(const Tensor& x, const Sequences& sequences, Tensor& y, Stream& stream);

// dx[t] = dy[s] / length of s, for each token t of sequence s. dx is overwritten.
void SequenceMeanBackward(const Tensor& dy, const Sequences& sequences, Tensor& dx, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_SEQUENCE_MEAN_H_
