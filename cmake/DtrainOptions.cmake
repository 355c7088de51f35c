# DtrainOptions.cmake - what a user may switch; every option is listed here and nowhere else.
# SPDX-License-Identifier: Apache-2.0
# A project that takes this one in by add_subdirectory() chooses for itself.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

set(DTRAIN_CUDA AUTO CACHE STRING "CUDA device: AUTO (where nvcc is found), ON, OFF, or HOST (tests: kernels run on the CPU)")
set_property(CACHE DTRAIN_CUDA PROPERTY STRINGS AUTO ON OFF HOST)
set(DTRAIN_CUDNN AUTO CACHE STRING "cuDNN's attention on the CUDA device: AUTO (where its headers are found), ON or OFF")
set_property(CACHE DTRAIN_CUDNN PROPERTY STRINGS AUTO ON OFF)
set(DTRAIN_NCCL AUTO CACHE STRING "NCCL between GPUs, loaded when first used: AUTO, ON (compared with nccl.h, which must be there), OFF")
set_property(CACHE DTRAIN_NCCL PROPERTY STRINGS AUTO ON OFF)
option(DTRAIN_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(DTRAIN_EXAMPLES "Build the example programs" ${PROJECT_IS_TOP_LEVEL})
option(DTRAIN_TOOLS "Build the dtrain tool and the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(DTRAIN_INSTALL "Make install rules" ${PROJECT_IS_TOP_LEVEL})
set(dtrain_unity OFF)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(dtrain_unity ON)
endif()
option(DTRAIN_UNITY "Compile several sources of a folder as one: a faster build from nothing" ${dtrain_unity})
option(DTRAIN_WERROR "Treat compiler warnings as errors" OFF)
option(DTRAIN_FUZZ "Build the fuzzers of tests/fuzz (clang only)" OFF)
set(DTRAIN_PACKAGE_MAINTAINER "dtrain developers <dtrain@localhost>" CACHE STRING
  "Name and address in Debian packages (cmake/DtrainPackages.cmake)")
set(DTRAIN_SANITIZE "" CACHE STRING "Sanitizers: empty, address,undefined or thread")
set(DTRAIN_WATCH_KERNELS order CACHE STRING
  "What is watched of kernels on the host executor: order (races), or address (bounds)")
set_property(CACHE DTRAIN_WATCH_KERNELS PROPERTY STRINGS order address)

find_program(DTRAIN_CCACHE ccache)
if(DTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache wants to be told that it may look past precompiled headers. With paths below the project taken
  # as relative ones, a clone elsewhere finds what this one compiled, and so do the presets. It takes the
  # names of headers from the compiler (CCACHE_DEPEND): to preprocess each file for them, which is its own
  # way, makes a first build a tenth longer.
  set(DTRAIN_CCACHE_COMMAND ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
    CCACHE_DEPEND=1 CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${DTRAIN_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${DTRAIN_CCACHE_COMMAND})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DTRAIN_CCACHE_COMMAND})
endif()

if(DTRAIN_SANITIZE)
  add_compile_options(-fsanitize=${DTRAIN_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${DTRAIN_SANITIZE})
endif()
