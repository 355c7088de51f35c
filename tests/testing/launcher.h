// launcher.h - what tests say to the mpirun of this build's MPI library, and what it answers.
// SPDX-License-Identifier: Apache-2.0
//
// For the sources of targets that dtrain_starts_ranks() of cmake/DtrainLauncher.cmake prepares. It
// defines DTRAIN_TEST_MPIRUN, a command that starts ranks also as root, and more than there are
// cores; and DTRAIN_TEST_MPIEXEC, the same command without a flag.
#ifndef DTRAIN_TESTS_TESTING_LAUNCHER_H_
#define DTRAIN_TESTS_TESTING_LAUNCHER_H_

namespace dtrain::launcher {

// False for Hydra, the mpirun of MPICH.
constexpr bool kIsOpenMpi = DTRAIN_TEST_OPEN_MPI != 0;

// Behind DTRAIN_TEST_MPIEXEC: root may start ranks.
constexpr const char* kAsRoot = kIsOpenMpi ? " --allow-run-as-root " : " ";

// Behind DTRAIN_TEST_MPIEXEC: two ranks on each of the hosts a and b.
constexpr const char* kOnTwoHosts =
    kIsOpenMpi ? " --allow-run-as-root -n 4 -H a:2,b:2 " : " -n 4 -hosts a:2,b:2 ";

// Puts the rank's name in front of each line, so that each comes whole.
constexpr const char* kTagged = kIsOpenMpi ? " --tag-output " : " -prepend-rank ";

// The exit code where signal 9 ended a rank.
constexpr int kKilledCode = kIsOpenMpi ? 137 : 9;

// The variable with a rank's number.
constexpr const char* kRankVariable = kIsOpenMpi ? "OMPI_COMM_WORLD_RANK" : "PMI_RANK";

}  // namespace dtrain::launcher

#endif  // DTRAIN_TESTS_TESTING_LAUNCHER_H_
