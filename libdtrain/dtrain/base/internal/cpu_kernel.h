// cpu_kernel.h - calls the copy of a CPU kernel that was compiled for this processor.
// SPDX-License-Identifier: Apache-2.0
//
// Each *_cpu.cc file is compiled once per instruction set, each time in the namespace DT_CPU_ISA
// (cpu_generic, cpu_avx2, cpu_avx512, cpu_avx512_bf16; on 64-bit ARM cpu_generic, cpu_neon,
// cpu_neon_bf16). The op's internal header declares the kernel in all of these namespaces:
//
//   DT_DECLARE_CPU_KERNEL(LayerNormForwardKernel, LayerNormForwardArgs);
//
// The macro also defines `template <typename T> void LayerNormForwardKernelCpu(const
// LayerNormForwardArgs&)`, which calls the best copy at run time. The _cpu.cc file defines
// `template <typename T> void LayerNormForwardKernel(const Args&)` in namespace dtrain::DT_CPU_ISA
// and instantiates it explicitly at its end for float and BFloat16.
#ifndef DTRAIN_BASE_INTERNAL_CPU_KERNEL_H_
#define DTRAIN_BASE_INTERNAL_CPU_KERNEL_H_

#include "dtrain/base/cpu_isa.h"

// DT_DECLARE_CPU_KERNEL() without its end: the declaration in one namespace.
#define DT_CPU_KERNEL_IN(space, Name, Args) \
  namespace space {                         \
  template <typename T>                     \
  void Name(const Args& args);              \
  }

#if defined(__x86_64__)
#define DT_DECLARE_CPU_KERNEL(Name, Args)       \
  DT_CPU_KERNEL_IN(cpu_generic, Name, Args)     \
  DT_CPU_KERNEL_IN(cpu_avx2, Name, Args)        \
  DT_CPU_KERNEL_IN(cpu_avx512, Name, Args)      \
  DT_CPU_KERNEL_IN(cpu_avx512_bf16, Name, Args) \
  template <typename T>                         \
  inline void Name##Cpu(const Args& args) {     \
    switch (BestCpuIsa()) {                     \
      case CpuIsa::kAmxBf16:                    \
      case CpuIsa::kAvx512Bf16:                 \
        return cpu_avx512_bf16::Name<T>(args);  \
      case CpuIsa::kAvx512:                     \
        return cpu_avx512::Name<T>(args);       \
      case CpuIsa::kAvx2:                       \
        return cpu_avx2::Name<T>(args);         \
      default:                                  \
        return cpu_generic::Name<T>(args);      \
    }                                           \
  }                                             \
  static_assert(true)
#elif defined(__aarch64__)
#define DT_DECLARE_CPU_KERNEL(Name, Args)     \
  DT_CPU_KERNEL_IN(cpu_generic, Name, Args)   \
  DT_CPU_KERNEL_IN(cpu_neon, Name, Args)      \
  DT_CPU_KERNEL_IN(cpu_neon_bf16, Name, Args) \
  template <typename T>                       \
  inline void Name##Cpu(const Args& args) {   \
    switch (BestCpuIsa()) {                   \
      case CpuIsa::kNeonBf16:                 \
        return cpu_neon_bf16::Name<T>(args);  \
      case CpuIsa::kNeon:                     \
        return cpu_neon::Name<T>(args);       \
      default:                                \
        return cpu_generic::Name<T>(args);    \
    }                                         \
  }                                           \
  static_assert(true)
#else
#define DT_DECLARE_CPU_KERNEL(Name, Args)   \
  DT_CPU_KERNEL_IN(cpu_generic, Name, Args) \
  template <typename T>                     \
  inline void Name##Cpu(const Args& args) { \
    cpu_generic::Name<T>(args);             \
  }                                         \
  static_assert(true)
#endif

#endif  // DTRAIN_BASE_INTERNAL_CPU_KERNEL_H_
