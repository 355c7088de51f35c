// tile_gemm.h - matrix products with the matrix unit of x86 (AMX), and those of 64-bit ARM.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_TILE_GEMM_H_
#define DTRAIN_OPS_INTERNAL_TILE_GEMM_H_

#include "dtrain/ops/internal/gemm_kernel.h"

namespace dtrain {

// True if the processor has AMX and the product is large enough to gain from GemmByTiles(), and on
// 64-bit ARM.
bool GainsByTiles(const GemmArgs& args);
// Computes the product. `type` is the type of a and b: bfloat16 (c has either type), or float32 (c
// too), with float32's precision. The result has the same bits with any number of threads.
void GemmByTiles(const GemmArgs& args, DType type);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_TILE_GEMM_H_
