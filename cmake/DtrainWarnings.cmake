# DtrainWarnings.cmake - the warnings every one of our own targets is compiled with.
# SPDX-License-Identifier: Apache-2.0
add_library(dtrain_warnings INTERFACE)
target_compile_options(dtrain_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor;-Wold-style-cast>
  $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<BOOL:${DTRAIN_WERROR}>>:-Werror>)
# Without CUDA, and in kernels for smaller processors, nobody calls what only a branch of `if constexpr` calls. GCC
# counts this as a use; clang does not.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(dtrain_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Wno-unused-function;-Wno-unneeded-internal-declaration>)
endif()

# From 13 on, GCC warns of a reference from each function that is given a temporary, whatever it returns.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  target_compile_options(dtrain_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-dangling-reference>)
endif()

# Code that is compiled quickly because it need not be fast. At -O1 GCC warns of reads and writes on
# paths that nothing can take (a string of length -1): these warnings stay on at -O0 and -O3 only.
set(DTRAIN_QUICK_OPTIONS -O1)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND DTRAIN_QUICK_OPTIONS -Wno-stringop-overread -Wno-stringop-overflow -Wno-array-bounds
    -Wno-restrict)
  # From 13 on, GCC for x86 sets these at -O2 and above, and refuses a precompiled header that was made with
  # other settings.
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13 AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND DTRAIN_QUICK_OPTIONS -munroll-only-small-loops -mvzeroupper)
  endif()
endif()
