# DtrainLauncher.cmake - how tests start ranks: what differs between the launchers of MPI libraries.
# SPDX-License-Identifier: Apache-2.0
#
# DTRAIN_MPIRUN starts ranks also as root, and more of them than there are cores. dtrain_starts_ranks(TARGET)
# tells a test's source: tests/testing/launcher.h.
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE dtrain_launcher ERROR_QUIET)
if(dtrain_launcher MATCHES "Open MPI|OpenRTE|PRRTE")
  set(DTRAIN_MPI_IS_OPEN_MPI 1)
  set(DTRAIN_MPIRUN ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe)
else()  # Hydra, the launcher of MPICH, needs to be told neither
  set(DTRAIN_MPI_IS_OPEN_MPI 0)
  set(DTRAIN_MPIRUN ${MPIEXEC_EXECUTABLE})
endif()

function(dtrain_starts_ranks target)
  string(JOIN " " mpirun ${DTRAIN_MPIRUN})
  target_compile_definitions(${target} PRIVATE DTRAIN_TEST_MPIRUN="${mpirun}"
    DTRAIN_TEST_MPIEXEC="${MPIEXEC_EXECUTABLE}" DTRAIN_TEST_OPEN_MPI=${DTRAIN_MPI_IS_OPEN_MPI})
endfunction()
