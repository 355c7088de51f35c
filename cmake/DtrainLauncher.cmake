# DtrainLauncher.cmake - how tests start ranks: what differs between the launchers of MPI libraries.
# SPDX-License-Identifier: Apache-2.0
#
# DTRAIN_MPIRUN starts ranks also as root, and more of them than there are cores. So does
# DTRAIN_OTHER_MPIRUN, the launcher of the other family of MPI libraries where both are installed.
# dtrain_starts_ranks(TARGET) tells a test's source: tests/testing/launcher.h.
find_program(MPIEXEC_EXECUTABLE NAMES mpiexec mpirun)
dtrain_require(MPIEXEC_EXECUTABLE "mpiexec for its tests (-DDTRAIN_TESTS=OFF builds none)" "openmpi-bin")
set(dtrain_open_mpi_options --allow-run-as-root --oversubscribe)
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE dtrain_launcher ERROR_QUIET)
if(dtrain_launcher MATCHES "Open MPI|OpenRTE|PRRTE")
  set(DTRAIN_MPI_IS_OPEN_MPI 1)
  set(DTRAIN_MPIRUN ${MPIEXEC_EXECUTABLE} ${dtrain_open_mpi_options})
  find_program(DTRAIN_OTHER_MPIRUN NAMES mpiexec.mpich mpiexec.hydra)
else()  # Hydra, the launcher of MPICH, needs to be told neither
  set(DTRAIN_MPI_IS_OPEN_MPI 0)
  set(DTRAIN_MPIRUN ${MPIEXEC_EXECUTABLE})
  find_program(DTRAIN_OTHER_OPEN_MPIRUN NAMES mpiexec.openmpi)
  if(DTRAIN_OTHER_OPEN_MPIRUN)
    set(DTRAIN_OTHER_MPIRUN ${DTRAIN_OTHER_OPEN_MPIRUN} ${dtrain_open_mpi_options})
  endif()
endif()
mark_as_advanced(MPIEXEC_EXECUTABLE DTRAIN_OTHER_MPIRUN DTRAIN_OTHER_OPEN_MPIRUN)

function(dtrain_starts_ranks target)
  string(JOIN " " mpirun ${DTRAIN_MPIRUN})
  target_compile_definitions(${target} PRIVATE DTRAIN_TEST_MPIRUN="${mpirun}"
    DTRAIN_TEST_MPIEXEC="${MPIEXEC_EXECUTABLE}" DTRAIN_TEST_OPEN_MPI=${DTRAIN_MPI_IS_OPEN_MPI})
endfunction()
