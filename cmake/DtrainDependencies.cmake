# DtrainDependencies.cmake - finds every package once and says which Debian package is missing.
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
find_package(Protobuf QUIET)
dtrain_require(Protobuf_FOUND "Protocol Buffers" "libprotobuf-dev protobuf-compiler")
find_package(absl QUIET CONFIG)
dtrain_require(absl_FOUND "Abseil" "libabsl-dev")
find_package(nlohmann_json QUIET)
dtrain_require(nlohmann_json_FOUND "nlohmann-json" "nlohmann-json3-dev")
find_package(ZLIB QUIET)
dtrain_require(ZLIB_FOUND "zlib" "zlib1g-dev")

# oneDNN's CMake package asks for OpenCL even where it is not used: find the library itself.
find_path(DNNL_INCLUDE_DIR NAMES oneapi/dnnl/dnnl.hpp dnnl.hpp)
find_library(DNNL_LIBRARY NAMES dnnl)
# Debian ships the other three without CMake packages.
find_path(ISAL_INCLUDE_DIR NAMES isa-l/crc.h)
find_library(ISAL_LIBRARY NAMES isal)
find_path(ZSTD_INCLUDE_DIR NAMES zstd.h)
find_library(ZSTD_LIBRARY NAMES zstd)
find_path(UTF8PROC_INCLUDE_DIR NAMES utf8proc.h)
find_library(UTF8PROC_LIBRARY NAMES utf8proc)
dtrain_require(DNNL_LIBRARY "oneDNN" "libdnnl-dev")
dtrain_require(ISAL_LIBRARY "ISA-L" "libisal-dev")
dtrain_require(ZSTD_LIBRARY "Zstandard" "libzstd-dev")
dtrain_require(UTF8PROC_LIBRARY "utf8proc" "libutf8proc-dev")

# The libraries that libdtrain is linked with, as one target; none appears in a public header
# but absl::Status.
add_library(dtrain_dependencies INTERFACE)
target_include_directories(dtrain_dependencies SYSTEM INTERFACE
  ${DNNL_INCLUDE_DIR} ${ISAL_INCLUDE_DIR} ${ZSTD_INCLUDE_DIR} ${UTF8PROC_INCLUDE_DIR})
target_link_libraries(dtrain_dependencies INTERFACE
  ${DNNL_LIBRARY} ${ISAL_LIBRARY} ${ZSTD_LIBRARY} ${UTF8PROC_LIBRARY}
  ZLIB::ZLIB nlohmann_json::nlohmann_json OpenMP::OpenMP_CXX MPI::MPI_C protobuf::libprotobuf
  absl::status absl::statusor absl::str_format absl::strings)
# Open MPI's deprecated C++ bindings would need a library that nobody links.
target_compile_definitions(dtrain_dependencies INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
