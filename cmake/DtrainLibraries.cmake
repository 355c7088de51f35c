# DtrainLibraries.cmake - the libraries that come without a usable CMake package, as targets.
# SPDX-License-Identifier: Apache-2.0
#
# Read by this build and, installed, by find_package(dtrain): a static libdtrain is linked with
# them in both. Leaves dtrain_missing_libraries: what could not be found, empty for nothing.
set(dtrain_missing_libraries)

# dtrain::NAME, found by one of its header's names and its library's name.
macro(dtrain_find_library name library)
  string(TOUPPER ${name} dtrain_upper)
  find_path(${dtrain_upper}_INCLUDE_DIR NAMES ${ARGN})
  find_library(${dtrain_upper}_LIBRARY NAMES ${library})
  mark_as_advanced(${dtrain_upper}_INCLUDE_DIR ${dtrain_upper}_LIBRARY)
  if(NOT ${dtrain_upper}_INCLUDE_DIR OR NOT ${dtrain_upper}_LIBRARY)
    list(APPEND dtrain_missing_libraries ${name})
  elseif(NOT TARGET dtrain::${name})
    add_library(dtrain::${name} UNKNOWN IMPORTED)
    set_target_properties(dtrain::${name} PROPERTIES IMPORTED_LOCATION ${${dtrain_upper}_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${${dtrain_upper}_INCLUDE_DIR})
  endif()
endmacro()

# oneDNN's own package asks for OpenCL even where it is not used.
dtrain_find_library(dnnl dnnl oneapi/dnnl/dnnl.hpp)
dtrain_find_library(isal isal isa-l/crc.h)
dtrain_find_library(zstd zstd zstd.h)
dtrain_find_library(utf8proc utf8proc utf8proc.h)
