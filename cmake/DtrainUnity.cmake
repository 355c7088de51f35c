# DtrainUnity.cmake - compiles the sources of a folder several at a time.
# SPDX-License-Identifier: Apache-2.0
#
# Most of a unit's compile time goes into headers that its neighbours include too. dtrain_unity(TARGET
# ROOT [GLUE] FILES FILE...) writes units that each include several of FILES, all from one folder, and
# compiles these in place of FILES. GLUE adds DTRAIN_GLUE_OPTIONS. A unit names its files relative to ROOT,
# an include folder of the target, so that ccache knows it in a clone at another path.
# With DTRAIN_UNITY=OFF each file is compiled by itself.
#
# Most files in a unit: what is compiled quickly comes in longer ones.
set(DTRAIN_UNITY_SIZE 8)
set(DTRAIN_UNITY_SIZE_OF_GLUE 14)

# Code that runs once an update or once a run is compiled quickly; what runs once a sample, a token or
# an element is compiled to be fast.
set(DTRAIN_GLUE_OPTIONS "$<$<CONFIG:Release>:${DTRAIN_QUICK_OPTIONS}>")

function(dtrain_unity target root)
  cmake_parse_arguments(PARSE_ARGV 2 U "GLUE" "" "FILES")
  set(options)
  set(suffix)
  set(size ${DTRAIN_UNITY_SIZE})
  if(U_GLUE)
    set(options "${DTRAIN_GLUE_OPTIONS}")
    set(suffix _glue)
    set(size ${DTRAIN_UNITY_SIZE_OF_GLUE})
  endif()
  if(NOT DTRAIN_UNITY)
    set_property(SOURCE ${U_FILES} APPEND PROPERTY COMPILE_OPTIONS "${options}")
    return()
  endif()
  set(folders)
  foreach(file ${U_FILES})
    get_filename_component(file ${file} ABSOLUTE)
    file(RELATIVE_PATH name ${root} ${file})
    string(REGEX REPLACE "(/internal)?/[^/]*$" "" folder ${name})
    string(REGEX REPLACE "^dtrain/" "" folder ${folder})
    string(REPLACE "/" "_" folder ${folder})
    list(APPEND folders ${folder})
    list(APPEND names_of_${folder} ${name})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder ${folders})
    # As few units as the size allows, of equal length.
    list(LENGTH names_of_${folder} files)
    math(EXPR units "(${files} + ${size} - 1) / ${size}")
    foreach(i RANGE 1 ${units})
      math(EXPR begin "(${i} - 1) * ${files} / ${units}")
      math(EXPR length "${i} * ${files} / ${units} - ${begin}")
      list(SUBLIST names_of_${folder} ${begin} ${length} names)
      list(TRANSFORM names REPLACE "(.+)" "#include \"\\1\"\n")
      string(JOIN "" text ${names})
      set(unit ${CMAKE_CURRENT_BINARY_DIR}/unity/${folder}${suffix}_${i}.cc)
      file(CONFIGURE OUTPUT ${unit} CONTENT "${text}")  # written where it changes
      target_sources(${target} PRIVATE ${unit})
      set_property(SOURCE ${unit} PROPERTY COMPILE_OPTIONS "${options}")
    endforeach()
  endforeach()
  set_property(SOURCE ${U_FILES} PROPERTY HEADER_FILE_ONLY ON)
endfunction()
