# DtrainInstall.cmake - install rules and the CMake package find_package(dtrain) reads.
