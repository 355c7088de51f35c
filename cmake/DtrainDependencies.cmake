# DtrainDependencies.cmake - finds every package once and says which Debian package is missing.
# SPDX-License-Identifier: Apache-2.0
function(dtrain_require found what debian)
  if(NOT ${found})
    message(FATAL_ERROR "dtrain needs ${what}. On Debian: apt-get install ${debian}")
  endif()
endfunction()

find_package(PkgConfig QUIET)
find_package(OpenMP QUIET COMPONENTS CXX)
dtrain_require(OpenMP_CXX_FOUND "a compiler with OpenMP" "g++")
find_package(MPI QUIET COMPONENTS C)
dtrain_require(MPI_C_FOUND "an MPI library" "libopenmpi-dev openmpi-bin")
# From 22 on Protocol Buffers stand on Abseil, and only their own package names all libraries to link.
find_package(Protobuf QUIET CONFIG)
if(NOT Protobuf_FOUND)
  find_package(Protobuf QUIET MODULE)
endif()
dtrain_require(Protobuf_FOUND "Protocol Buffers" "libprotobuf-dev protobuf-compiler")
find_package(absl QUIET CONFIG)
dtrain_require(absl_FOUND "Abseil" "libabsl-dev")
find_package(nlohmann_json QUIET)
dtrain_require(nlohmann_json_FOUND "nlohmann-json" "nlohmann-json3-dev")
find_package(ZLIB QUIET)
dtrain_require(ZLIB_FOUND "zlib" "zlib1g-dev")

include(DtrainLibraries)
foreach(library ${dtrain_missing_libraries})
  message(FATAL_ERROR "dtrain needs ${library}. On Debian: apt-get install lib${library}-dev")
endforeach()

# What a program must be linked with beside libdtrain where that is static; dtrainConfig.cmake.in
# finds the same. None of them appears in a public header.
set(DTRAIN_LINK_LIBRARIES dtrain::dnnl dtrain::isal dtrain::zstd dtrain::utf8proc
  ZLIB::ZLIB OpenMP::OpenMP_CXX MPI::MPI_C absl::str_format absl::strings)
