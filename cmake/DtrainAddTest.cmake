# DtrainAddTest.cmake - dtrain_add_test(): one test binary per test file, one ctest entry per run.
# SPDX-License-Identifier: Apache-2.0
#
#   dtrain_add_test(NAME ops/layer_norm_test [SOURCES more.cc] [LIBS lib] [LABEL unit]
#                   [RANKS 1 2 4 [BOTH_LAUNCHERS]] [TIMEOUT 180])
# NAME is the path of the test file below tests/, without .cc. RANKS runs it under mpirun, once per
# count, with the label mpi; BOTH_LAUNCHERS also under the mpirun of another MPI library. Each test
# carries exactly one label: unit, kernel, mpi or slow.
#
# Threads that wait sleep after a short spin, as in the programs (base/thread_pool.h): where other
# processes want the cores too, spinning makes a test fifty times slower.
set(dtrain_test_threads GOMP_SPINCOUNT=5000)
# An emulator (the preset aarch64) takes its time.
set(dtrain_patience 1)
if(CMAKE_CROSSCOMPILING)
  set(dtrain_patience 15)
endif()
# tests/testing/catch.h bridges versions 2 and 3.
find_package(Catch2 QUIET)
dtrain_require(Catch2_FOUND "Catch2" "catch2")

function(dtrain_add_test)
  cmake_parse_arguments(T "BOTH_LAUNCHERS" "NAME;LABEL;TIMEOUT" "SOURCES;LIBS;RANKS" ${ARGN})
  string(REPLACE "/" "_" target ${T_NAME})
  if(NOT T_LABEL)
    set(T_LABEL unit)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 180)
  endif()
  math(EXPR T_TIMEOUT "${T_TIMEOUT} * ${dtrain_patience}")
  add_executable(${target} ${PROJECT_SOURCE_DIR}/tests/${T_NAME}.cc ${T_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  # Some call Abseil themselves; with a shared library that is theirs to link.
  target_link_libraries(${target} PRIVATE dtrain dtrain_testing dtrain_warnings absl::strings ${T_LIBS})
  target_precompile_headers(${target} REUSE_FROM dtrain_test_headers)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(T_RANKS)
    target_link_libraries(${target} PRIVATE dtrain_mpi_test_main Catch2::Catch2)
    set(launchers DTRAIN_MPIRUN)
    if(T_BOTH_LAUNCHERS AND DTRAIN_OTHER_MPIRUN)
      list(APPEND launchers DTRAIN_OTHER_MPIRUN)
    endif()
    foreach(launcher ${launchers})
      foreach(ranks ${T_RANKS})
        set(name ${T_NAME}/${ranks})
        if("${launcher}" STREQUAL "DTRAIN_OTHER_MPIRUN")
          string(APPEND name /other_mpi)
        endif()
        add_test(NAME ${name} COMMAND ${${launcher}} --bind-to none -n ${ranks} $<TARGET_FILE:${target}>)
        set_tests_properties(${name} PROPERTIES LABELS mpi TIMEOUT ${T_TIMEOUT}
          PROCESSORS ${ranks} ENVIRONMENT "OMP_NUM_THREADS=1;OMPI_MCA_mpi_yield_when_idle=1")
      endforeach()
    endforeach()
  else()
    target_link_libraries(${target} PRIVATE Catch2::Catch2WithMain)
    add_test(NAME ${T_NAME} COMMAND ${target})
    set_tests_properties(${T_NAME} PROPERTIES LABELS ${T_LABEL} TIMEOUT ${T_TIMEOUT}
      ENVIRONMENT "${dtrain_test_threads}")
  endif()
endfunction()

# dtrain_add_device_test(NAME): the same binary again, its ops on the GPU or the host executor.
function(dtrain_add_device_test name)
  if(NOT DTRAIN_WITH_CUDA)
    return()
  endif()
  string(REPLACE "/" "_" target ${name})
  set(seconds 300)
  if(DTRAIN_WATCH_OPTIONS)
    set(seconds 900)
  endif()
  add_test(NAME ${name}/cuda COMMAND ${target})
  set_tests_properties(${name}/cuda PROPERTIES LABELS kernel TIMEOUT ${seconds}
    ENVIRONMENT "DTRAIN_TEST_DEVICE=cuda;${dtrain_test_threads}")
endfunction()

# dtrain_add_late_device_test(NAME): and again on the host executor with streams that run their work as
# late as a GPU might (tests/testing/host_executor/streams.h).
function(dtrain_add_late_device_test name)
  if(NOT DTRAIN_WITH_CUDA STREQUAL "HOST")
    return()
  endif()
  string(REPLACE "/" "_" target ${name})
  add_test(NAME ${name}/late COMMAND ${target})
  set_tests_properties(${name}/late PROPERTIES LABELS kernel TIMEOUT 300
    ENVIRONMENT "DTRAIN_TEST_DEVICE=cuda;DTRAIN_EXECUTOR_STREAMS=late")
endfunction()

# dtrain_add_isa_test(NAME): the same binary again, held to the smaller instruction sets.
function(dtrain_add_isa_test name)
  string(REPLACE "/" "_" target ${name})
  math(EXPR seconds "60 * ${dtrain_patience}")
  foreach(isa ${DTRAIN_CPU_ISAS})
    set(environment DTRAIN_CPU_ISA=${isa})
    if(isa STREQUAL "neon")
      list(APPEND environment QEMU_CPU=cortex-a57)  # an emulated processor that has no more
    endif()
    add_test(NAME ${name}/${isa} COMMAND ${target})
    set_tests_properties(${name}/${isa} PROPERTIES LABELS unit TIMEOUT ${seconds}
      ENVIRONMENT "${environment}")
  endforeach()
endfunction()

# dtrain_add_reader_check(NAME TARGET): somebody else's reader of what the test TARGET writes,
# tests/integration/NAME.py. It skips where its Python packages are absent.
find_package(Python3 QUIET COMPONENTS Interpreter)
function(dtrain_add_reader_check name target)
  if(Python3_FOUND)
    add_test(NAME integration/${name} COMMAND ${Python3_EXECUTABLE}
      ${PROJECT_SOURCE_DIR}/tests/integration/${name}.py $<TARGET_FILE:${target}>)
    set_tests_properties(integration/${name} PROPERTIES LABELS unit TIMEOUT 60
      SKIP_REGULAR_EXPRESSION "skipped:")
  endif()
endfunction()
