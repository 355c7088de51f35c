// line_sample.h - draws lines from a text of unknown length, each with the same chance.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_LINE_SAMPLE_H_
#define DTRAIN_TOKENIZERS_LINE_SAMPLE_H_

#include <cstdint>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/bpe_trainer.h"

namespace dtrain {

// Reads the source to its end and returns another one, of `count` of its lines in one batch: a
// reservoir (Vitter 1985, algorithm R). Lines without a visible character are not drawn. Where the
// source has at most `count` lines, these are all. The same seed draws the same lines, on any
// machine. Memory: the lines that are kept. `count` is at least 1. Returns the source's error.
StatusOr<LineSource> SampleLines(const LineSource& source, int64_t count, uint64_t seed);

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_LINE_SAMPLE_H_
