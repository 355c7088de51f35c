// cpu_isa.h - which of the compiled instruction sets this processor runs.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_CPU_ISA_H_
#define DTRAIN_BASE_CPU_ISA_H_

#include <string_view>

namespace dtrain {

// kAvx512Bf16 is kAvx512 with conversions to bfloat16 and products of bfloat16 pairs; kAmxBf16 has
// a matrix unit (AMX) besides, which kernels of kAvx512Bf16 use where it is the best set.
enum class CpuIsa { kGeneric, kAvx2, kAvx512, kAvx512Bf16, kAmxBf16 };

// The best one; DTRAIN_CPU_ISA=generic|avx2|avx512|avx512_bf16|amx_bf16 in the environment, read
// once, lowers it, and so does LimitCpuIsa().
CpuIsa BestCpuIsa();
// At most this one from now on. For ranks on unlike processors, before they compute: sums over
// vectors and fused products round otherwise with each set, and replicas that update their weights
// alike must do it to the same bits.
void LimitCpuIsa(CpuIsa isa);
std::string_view CpuIsaName(CpuIsa isa);

}  // namespace dtrain

#endif  // DTRAIN_BASE_CPU_ISA_H_
