# DtrainPublicHeaders.cmake - the headers that users include: dtrain.h, trained_models.h and what they include.
# SPDX-License-Identifier: Apache-2.0

# dtrain_public_headers(VARIABLE): the public headers as they are included, "dtrain/nn/linear.h".
function(dtrain_public_headers variable)
  set(headers dtrain/dtrain.h dtrain/trained_models.h)
  set(unread ${headers})
  while(unread)
    list(POP_FRONT unread header)
    file(STRINGS ${PROJECT_SOURCE_DIR}/libdtrain/${header} lines REGEX "^#include \"dtrain/")
    foreach(line ${lines})
      string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
      if(NOT included IN_LIST headers)
        list(APPEND headers ${included})
        list(APPEND unread ${included})
      endif()
    endforeach()
  endwhile()
  set(${variable} ${headers} PARENT_SCOPE)
endfunction()
