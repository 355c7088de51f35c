# DtrainSummary.cmake - one glance at the end of configure: what is built and what is not.
# SPDX-License-Identifier: Apache-2.0
message(STATUS "dtrain ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, CPU kernels: ${DTRAIN_CPU_ISAS}, "
  "CUDA ${DTRAIN_WITH_CUDA} ${CMAKE_CUDA_ARCHITECTURES}, cuDNN ${DTRAIN_WITH_CUDNN}")
message(STATUS "  tests ${DTRAIN_TESTS}, examples ${DTRAIN_EXAMPLES}, tools ${DTRAIN_TOOLS}, "
  "sanitizers '${DTRAIN_SANITIZE}'")
