# DtrainInstall.cmake - install rules and the CMake package find_package(dtrain) reads.
# SPDX-License-Identifier: Apache-2.0
if(NOT DTRAIN_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dtrain)

# Components are what packages hold (cmake/DtrainPackages.cmake); cmake --install takes all of them.
install(TARGETS dtrain EXPORT dtrainTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
# The public headers; everything else is internal.
dtrain_public_headers(DTRAIN_PUBLIC_HEADERS)
foreach(header ${DTRAIN_PUBLIC_HEADERS})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/libdtrain/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME programs)
# A program has a folder of presets in examples/. The demo presets name the data beside them.
file(GLOB programs RELATIVE ${PROJECT_SOURCE_DIR}/examples CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/examples/*/configs)
list(TRANSFORM programs REPLACE "/configs$" "")
foreach(program dtrain_tool ${programs})
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    set_target_properties(${program} PROPERTIES
      INSTALL_RPATH "$<$<BOOL:${BUILD_SHARED_LIBS}>:$ORIGIN/../${CMAKE_INSTALL_LIBDIR}>")
  endif()
endforeach()
if(DTRAIN_EXAMPLES)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/contrib/dtrain-mpirun DESTINATION ${CMAKE_INSTALL_BINDIR})
  foreach(program ${programs})
    foreach(folder configs data)
      if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/examples/${program}/${folder})
        install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/${program}/${folder}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/dtrain/${program})
      endif()
    endforeach()
  endforeach()
endif()

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
install(EXPORT dtrainTargets NAMESPACE dtrain:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/dtrainConfig.cmake.in
  ${PROJECT_BINARY_DIR}/dtrainConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dtrainConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dtrainConfig.cmake
  ${PROJECT_BINARY_DIR}/dtrainConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/DtrainLibraries.cmake DESTINATION ${package_dir})
