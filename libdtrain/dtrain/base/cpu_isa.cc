// cpu_isa.cc - detects the processor's instruction sets once.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/cpu_isa.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>

#include "dtrain/base/log.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace dtrain {
namespace {

// Those that a processor of this family may have.
constexpr CpuIsa kIsas[] = {
    CpuIsa::kGeneric,
#if defined(__aarch64__)
    CpuIsa::kNeon,
    CpuIsa::kNeonBf16,
#elif defined(__x86_64__)
    CpuIsa::kAvx2,    CpuIsa::kAvx512, CpuIsa::kAvx512Bf16, CpuIsa::kAmxBf16,
#endif
};

#if defined(__x86_64__)

// True if the processor has AMX for bfloat16 and the kernel lets this process use it. CPUID leaf 7:
// bit 22 of EDX is AMX-BF16, bit 24 is AMX-TILE. Linux allocates the 8 KiB of tile state only for
// processes that request it: https://docs.kernel.org/arch/x86/xstate.html.
bool GetsMatrixUnit() {
#if defined(__linux__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kWanted = 1u << 22 | 1u << 24;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kWanted) != kWanted) return false;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

#endif

// Tests the features that all compilers can query. The other features of x86-64-v3 and -v4 (F16C,
// LZCNT, MOVBE) exist in every processor that has these.
CpuIsa Detect() {
#if defined(__x86_64__)
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v4 && __builtin_cpu_supports("avx512bf16")) {
    return GetsMatrixUnit() ? CpuIsa::kAmxBf16 : CpuIsa::kAvx512Bf16;
  }
  if (v4) return CpuIsa::kAvx512;
  if (v3) return CpuIsa::kAvx2;
#elif defined(__aarch64__) && defined(__linux__)
  return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0 ? CpuIsa::kNeonBf16 : CpuIsa::kNeon;
#elif defined(__aarch64__)
  return CpuIsa::kNeon;
#endif
  return CpuIsa::kGeneric;
}

CpuIsa Choose() {
  const CpuIsa detected = Detect();
  const char* const asked = std::getenv("DTRAIN_CPU_ISA");
  if (asked == nullptr) return detected;
  std::string names;
  for (const CpuIsa isa : kIsas) {
    if (asked == CpuIsaName(isa)) return std::min(isa, detected);
    names += (names.empty() ? "" : ", ") + std::string(CpuIsaName(isa));
  }
  LogWarning("DTRAIN_CPU_ISA must be one of " + names + ", not \"" + asked +
             "\": " + std::string(CpuIsaName(detected)) + " is used");
  return detected;
}

std::atomic<CpuIsa>& Chosen() {
  static std::atomic<CpuIsa> isa = Choose();
  return isa;
}

}  // namespace

CpuIsa BestCpuIsa() { return Chosen().load(std::memory_order_relaxed); }

void LimitCpuIsa(CpuIsa isa) { Chosen() = std::min(isa, BestCpuIsa()); }

std::string_view CpuIsaName(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kGeneric:
      return "generic";
    case CpuIsa::kNeon:
      return "neon";
    case CpuIsa::kNeonBf16:
      return "neon_bf16";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAvx512Bf16:
      return "avx512_bf16";
    case CpuIsa::kAmxBf16:
      return "amx_bf16";
  }
  return "?";
}

}  // namespace dtrain
