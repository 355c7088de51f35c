# DtrainWarnings.cmake - the warnings every one of our own targets is compiled with.
add_library(dtrain_warnings INTERFACE)
target_compile_options(dtrain_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Wold-style-cast
  $<$<BOOL:${DTRAIN_WERROR}>:-Werror>)
