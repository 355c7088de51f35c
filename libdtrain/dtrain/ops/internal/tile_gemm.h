// tile_gemm.h - matrix products on the processor's matrix unit (AMX).
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_TILE_GEMM_H_
#define DTRAIN_OPS_INTERNAL_TILE_GEMM_H_

#include "dtrain/ops/internal/gemm_kernel.h"

namespace dtrain {

// Whether there is one, and the product is large enough to gain by GemmByTiles().
bool GainsByTiles(const GemmArgs& args);
// a and b are of `type`: bfloat16, and c of either type, or float32 like c, to float32's precision.
// The same bits on any number of threads.
void GemmByTiles(const GemmArgs& args, DType type);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_TILE_GEMM_H_
