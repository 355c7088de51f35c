// tile_gemm.h - matrix products of bfloat16 on the processor's matrix unit (AMX).
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_TILE_GEMM_H_
#define DTRAIN_OPS_INTERNAL_TILE_GEMM_H_

#include "dtrain/ops/internal/gemm_kernel.h"

namespace dtrain {

// Whether there is one, and the product is large enough to gain by GemmByTiles().
bool GainsByTiles(const GemmArgs& args);
// a and b are bfloat16, c either type; the same bits on any number of threads.
void GemmByTiles(const GemmArgs& args);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_TILE_GEMM_H_
