# DtrainCpuKernels.cmake - compiles the CPU kernels once per instruction set.
# SPDX-License-Identifier: Apache-2.0
#
# dtrain_cpu_kernels(FILE...) adds *_cpu.cc to the library once per instruction set, each time
# in a namespace of its own (cpu_generic, cpu_avx2, ...); base/internal/cpu_kernel.h picks one at
# run time. Such files include nothing that instantiates std templates: the linker would keep one
# copy for all, perhaps the one a smaller machine cannot run.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(DTRAIN_CPU_ISAS generic avx2 avx512 avx512_bf16)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(DTRAIN_CPU_ISAS generic neon neon_bf16)
else()
  set(DTRAIN_CPU_ISAS generic)
endif()
# Where there are others, the generic kernels only serve x86-64 processors without AVX2, which are slow in any
# case, and comparisons: a quick build serves everybody.
set(DTRAIN_CPU_FLAGS_generic -O3)
if(NOT DTRAIN_CPU_ISAS STREQUAL "generic")
  set(DTRAIN_CPU_FLAGS_generic ${DTRAIN_QUICK_OPTIONS})
endif()
# 64-bit ARM always has NEON, so the compiler does not tell whether a kernel may use it: DT_NEON does.
set(DTRAIN_CPU_FLAGS_neon -O3 -DDT_NEON)
set(DTRAIN_CPU_FLAGS_neon_bf16 -O3 -DDT_NEON -march=armv8.2-a+bf16)
set(DTRAIN_CPU_FLAGS_avx2 -O3 -march=x86-64-v3)
set(DTRAIN_CPU_FLAGS_avx512 -O3 -march=x86-64-v4 -mprefer-vector-width=512)
# No compiler makes use of AMX by itself: kernels ask BestCpuIsa() before they do.
set(DTRAIN_CPU_FLAGS_avx512_bf16 ${DTRAIN_CPU_FLAGS_avx512} -mavx512bf16 -mamx-tile -mamx-bf16)

# Outside of kernels, products are rounded before they are added, as on x86-64, whose smallest processors cannot
# fuse the two: a seed gives the same numbers everywhere.
set(DTRAIN_FUSE_KERNELS)
if(NOT "avx2" IN_LIST DTRAIN_CPU_ISAS)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off>)
  set(DTRAIN_FUSE_KERNELS -ffp-contract=fast)
endif()

function(dtrain_cpu_kernels)
  dtrain_cpu_kernels_of("${DTRAIN_CPU_ISAS}" ${ARGN})
endfunction()

# The same for some of the instruction sets; none of them where the processor is another.
function(dtrain_cpu_kernels_of isas)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  foreach(isa ${isas})
    if(NOT isa IN_LIST DTRAIN_CPU_ISAS)
      continue()
    endif()
    if(NOT TARGET dtrain_kernels_${isa})
      add_library(dtrain_kernels_${isa} OBJECT)
      target_include_directories(dtrain_kernels_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/libdtrain)
      target_compile_definitions(dtrain_kernels_${isa} PRIVATE DT_CPU_ISA=cpu_${isa})
      # Kernels may reorder sums, fuse products with them and ignore errno, but NaN and infinity keep their
      # meaning.
      target_compile_options(dtrain_kernels_${isa} PRIVATE ${DTRAIN_CPU_FLAGS_${isa}}
        -fno-math-errno -fno-trapping-math -fassociative-math -fno-signed-zeros -fopenmp-simd ${DTRAIN_FUSE_KERNELS})
      target_link_libraries(dtrain_kernels_${isa} PRIVATE OpenMP::OpenMP_CXX dtrain_warnings)
      target_sources(dtrain PRIVATE $<TARGET_OBJECTS:dtrain_kernels_${isa}>)
    endif()
    target_sources(dtrain_kernels_${isa} PRIVATE ${ARGN})
  endforeach()
endfunction()
