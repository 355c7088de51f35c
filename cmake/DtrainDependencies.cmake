# DtrainDependencies.cmake - finds every package once and says which Debian package is missing.
# SPDX-License-Identifier: Apache-2.0
include(CheckCXXSourceCompiles)

function(dtrain_require found what debian)
  if(NOT ${found})
    message(FATAL_ERROR "dtrain needs ${what}. On Debian: apt-get install ${debian}")
  endif()
endfunction()

# What is found but too old. `found` is empty where the version is not known: the compiler will tell.
function(dtrain_require_version what found needed help)
  if(found AND found VERSION_LESS needed)
    message(FATAL_ERROR "dtrain needs ${what} ${needed} or later, and found ${found}. ${help}")
  endif()
endfunction()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  dtrain_require_version("g++" "${CMAKE_CXX_COMPILER_VERSION}" 11
    "If there is a later one beside it (on Debian: apt-get install g++-12): -DCMAKE_CXX_COMPILER=g++-12")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  dtrain_require_version("clang" "${CMAKE_CXX_COMPILER_VERSION}" 15
    "If there is a later one beside it (on Debian: apt-get install clang-15): -DCMAKE_CXX_COMPILER=clang++-15")
endif()
find_package(PkgConfig QUIET)
find_package(OpenMP QUIET COMPONENTS CXX)
dtrain_require(OpenMP_CXX_FOUND "a compiler with OpenMP" "g++")
# Programs open the MPI library of the launcher that starts them. Its header serves to compare
# (comm/internal/mpi_abi.cc) and for one benchmark.
find_package(MPI QUIET COMPONENTS C)
# From 22 on Protocol Buffers stand on Abseil, and only their own package names all libraries to link.
find_package(Protobuf QUIET CONFIG)
if(NOT Protobuf_FOUND)
  find_package(Protobuf QUIET MODULE)
endif()
dtrain_require(Protobuf_FOUND "Protocol Buffers" "libprotobuf-dev protobuf-compiler")
dtrain_require_version("Protocol Buffers" "${Protobuf_VERSION}" 3.12 "Their header is in ${Protobuf_INCLUDE_DIRS}.")
find_package(absl QUIET CONFIG)
dtrain_require(absl_FOUND "Abseil" "libabsl-dev")
# An Abseil of 2021 that was built as C++14 (Ubuntu 22.04) has a string_view of its own.
set(CMAKE_REQUIRED_LIBRARIES absl::str_format)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
check_cxx_source_compiles("#include <string_view>
  #include <absl/strings/str_format.h>
  std::string Format(std::string_view text) { return absl::StrFormat(\"%s\", text); }" DTRAIN_ABSEIL_FORMATS_STRING_VIEW)
unset(CMAKE_TRY_COMPILE_TARGET_TYPE)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT DTRAIN_ABSEIL_FORMATS_STRING_VIEW)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/Abseil2021StrFormat.h.in
    ${PROJECT_BINARY_DIR}/abseil_2021/absl/strings/str_format.h COPYONLY)
  include_directories(BEFORE SYSTEM ${PROJECT_BINARY_DIR}/abseil_2021)
endif()
find_package(nlohmann_json QUIET)
dtrain_require(nlohmann_json_FOUND "nlohmann-json" "nlohmann-json3-dev")
find_package(ZLIB QUIET)
dtrain_require(ZLIB_FOUND "zlib" "zlib1g-dev")

include(DtrainLibraries)
foreach(library ${dtrain_missing_libraries})
  message(FATAL_ERROR "dtrain needs ${library}. On Debian: apt-get install lib${library}-dev")
endforeach()

# The header's lines are "#define DNNL_VERSION_MAJOR 2".
set(dtrain_dnnl_header ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h)
if(EXISTS ${dtrain_dnnl_header})
  file(STRINGS ${dtrain_dnnl_header} lines REGEX "define DNNL_VERSION_M(AJOR|INOR) +[0-9]+")
  string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
  list(JOIN numbers "." dtrain_dnnl_version)
  dtrain_require_version("oneDNN" "${dtrain_dnnl_version}" 2.2 "Its header is in ${DNNL_INCLUDE_DIR}.")
endif()

# What a program must be linked with beside libdtrain where that is static; dtrainConfig.cmake.in
# finds the same. None of them appears in a public header.
set(DTRAIN_LINK_LIBRARIES dtrain::dnnl dtrain::isal dtrain::zstd dtrain::utf8proc
  ZLIB::ZLIB OpenMP::OpenMP_CXX ${CMAKE_DL_LIBS} absl::str_format absl::strings)
