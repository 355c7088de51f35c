# DtrainPackages.cmake - Debian packages, one for each component that cmake/DtrainInstall.cmake installs.
# SPDX-License-Identifier: Apache-2.0
#
#   cmake --preset deb && cmake --build --preset deb    # writes build/deb/packages/*.deb
#
# dtrain has the programs, libdtrain0.1 the shared library, libdtrain-dev the headers and the CMake package.
# The number behind libdtrain is the library's SOVERSION, as Debian wants it. dpkg-shlibdeps finds
# what they depend on.
if(NOT DTRAIN_INSTALL OR NOT PROJECT_IS_TOP_LEVEL OR NOT BUILD_SHARED_LIBS)
  return()
endif()

get_target_property(soversion dtrain SOVERSION)
set(CPACK_GENERATOR DEB)
set(CPACK_OUTPUT_FILE_PREFIX ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
  GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL programs library development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SOURCE dtrain)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${DTRAIN_PACKAGE_MAINTAINER}")

# A package depends on the libraries of the release that built it, so its version names the release:
# 0.1.0-1~debian12. Debian's testing has no number, but a name.
set(release unknown)
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release lines REGEX "^(ID|VERSION_ID|VERSION_CODENAME)=")
  foreach(line ${lines})
    string(REGEX MATCH "^([A-Z_]+)=\"?([^\"]*)" line "${line}")
    set(os_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
  endforeach()
  set(release ${os_ID}${os_VERSION_ID})
  if(NOT os_VERSION_ID)
    set(release ${os_ID}.${os_VERSION_CODENAME})
  endif()
endif()
set(CPACK_DEBIAN_PACKAGE_RELEASE 1~${release})

set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# The programs' own library is in no package yet when dpkg-shlibdeps reads them.
get_target_property(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS dtrain BINARY_DIR)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME dtrain)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_COMPONENT_PROGRAMS_DEPENDS library)
# Programs that run alone need no MPI.
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS "openmpi-bin | mpich")
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION "train Transformers on one machine or on several
The programs nmt_train, bert_classify, bert_squad, bert_tag, bert_pretrain
and lm_train train translators, text classifiers, question answerers,
taggers, BERT and small GPTs. Processes work together over MPI. The tool
dtrain prepares texts, translates, measures, exports and watches runs.
Presets and sample texts are in /usr/share/dtrain.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libdtrain${soversion})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "library that trains Transformers on several machines
It has layers with forward and backward passes, optimizers, checkpoints, and
sums over the processes of an MPI job. This package has the shared library
that programs need to run.")
file(WRITE ${PROJECT_BINARY_DIR}/package_files/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/package_files/triggers)

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libdtrain-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS library)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "headers of a library that trains Transformers on several machines
With these you write a training program of your own in C++20. The package
has the headers and what find_package(dtrain) of CMake reads. An example is
in /usr/share/doc/libdtrain-dev/examples.")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/custom_trainer EXCLUDE_FROM_ALL COMPONENT development
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libdtrain-dev/examples PATTERN README.md EXCLUDE)

# Each package's licence and changes, where Debian wants them. cmake --install leaves them out.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(${PROJECT_SOURCE_DIR}/contrib/packaging/debian/changelog.in
  package_files/changelog.Debian @ONLY)
execute_process(COMMAND gzip -9nf ${PROJECT_BINARY_DIR}/package_files/changelog.Debian)
foreach(component PROGRAMS LIBRARY DEVELOPMENT)
  string(TOLOWER ${component} name)
  install(FILES ${PROJECT_SOURCE_DIR}/contrib/packaging/debian/copyright
    ${PROJECT_BINARY_DIR}/package_files/changelog.Debian.gz EXCLUDE_FROM_ALL COMPONENT ${name}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${component}_PACKAGE_NAME})
endforeach()

include(CPack)
