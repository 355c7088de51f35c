# DtrainWarnings.cmake - the warnings every one of our own targets is compiled with.
# SPDX-License-Identifier: Apache-2.0
add_library(dtrain_warnings INTERFACE)
target_compile_options(dtrain_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor;-Wold-style-cast>
  $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<BOOL:${DTRAIN_WERROR}>>:-Werror>)
