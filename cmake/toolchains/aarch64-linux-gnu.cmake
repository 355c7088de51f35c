# aarch64-linux-gnu.cmake - builds for 64-bit ARM on another machine; the preset aarch64 uses it.
# SPDX-License-Identifier: Apache-2.0
#
# CMAKE_SYSROOT is a folder with the ARM machine's usr/lib and usr/include: its system, copied, or packages for
# arm64, unpacked (docs/install.md). protoc is this machine's, and has to be of the sysroot's release.
# Where qemu-aarch64 is installed, ctest runs the tests with it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc CACHE STRING "C compiler")
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++ CACHE STRING "C++ compiler")
set(CMAKE_SYSROOT "" CACHE PATH "The ARM machine's files")
if(NOT IS_DIRECTORY "${CMAKE_SYSROOT}/usr/include")
  message(FATAL_ERROR "CMAKE_SYSROOT (\"${CMAKE_SYSROOT}\") has no folder usr/include: "
    "give -DCMAKE_SYSROOT=/path/to/the/files/of/the/ARM/machine")
endif()

# Programs run here, everything else is the ARM machine's.
set(CMAKE_FIND_ROOT_PATH ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

find_program(DTRAIN_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
mark_as_advanced(DTRAIN_QEMU)
if(DTRAIN_QEMU)
  # qemu before 8 keeps some bytes for every page of addresses that a program ever reserved. dtrain reserves a
  # tebibyte for an arena where it may, but also works with less. Without the limit this takes all memory.
  set(CMAKE_CROSSCOMPILING_EMULATOR prlimit --as=8589934592 ${DTRAIN_QEMU} -L ${CMAKE_SYSROOT})
endif()

# This machine's mpicc and packages would name this machine's MPI.
set(MPI_SKIP_COMPILER_WRAPPER TRUE)
set(dtrain_arm_libraries ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${dtrain_arm_libraries}/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
find_path(MPI_C_HEADER_DIR mpi.h NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH PATHS
  ${dtrain_arm_libraries}/openmpi/include ${CMAKE_SYSROOT}/usr/include/aarch64-linux-gnu/mpich
  ${CMAKE_SYSROOT}/usr/include)
find_library(MPI_mpi_LIBRARY NAMES mpi mpich NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH PATHS
  ${dtrain_arm_libraries}/openmpi/lib ${dtrain_arm_libraries} ${CMAKE_SYSROOT}/usr/lib)
set(MPI_C_LIB_NAMES mpi CACHE STRING "Names of MPI's libraries")
