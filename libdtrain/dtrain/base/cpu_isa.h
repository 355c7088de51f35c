// cpu_isa.h - chooses the CPU instruction set whose compiled kernels run.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_CPU_ISA_H_
#define DTRAIN_BASE_CPU_ISA_H_

#include <string_view>

namespace dtrain {

// In each family, a later one includes the earlier ones. ARM's come first, so that `>= kAvx2` is
// false there.
//
// 64-bit ARM: kNeonBf16 adds conversions to bfloat16 and products of small matrices of bfloat16
// (FEAT_BF16) to kNeon, which every such processor has.
//
// x86-64: kAvx512Bf16 adds conversions to bfloat16 and products of bfloat16 pairs to kAvx512.
// kAmxBf16 adds the AMX matrix unit; most kernels then use their kAvx512Bf16 version, and some use
// AMX too.
enum class CpuIsa { kGeneric, kNeon, kNeonBf16, kAvx2, kAvx512, kAvx512Bf16, kAmxBf16 };

// The best instruction set of this processor. The environment variable DTRAIN_CPU_ISA, which is
// read once and holds a name as of CpuIsaName(), and LimitCpuIsa() can lower it.
CpuIsa BestCpuIsa();
// From now on BestCpuIsa() returns at most `isa`. Ranks on different processors call this before
// they compute, so that all use the same instruction set: vector sums and fused multiply-adds round
// differently in each, and replicas must update their weights to the same bits.
void LimitCpuIsa(CpuIsa isa);
// "generic", "neon", "neon_bf16", "avx2", "avx512", "avx512_bf16" or "amx_bf16".
std::string_view CpuIsaName(CpuIsa isa);

}  // namespace dtrain

#endif  // DTRAIN_BASE_CPU_ISA_H_
