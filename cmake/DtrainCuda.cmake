# DtrainCuda.cmake - the CUDA device: the compiler, the architectures, and who compiles a kernel.
# SPDX-License-Identifier: Apache-2.0
#
# DTRAIN_CUDA=ON needs nvcc, AUTO takes it where it is found, OFF builds the CPU device alone. HOST,
# for tests on machines without a GPU, has the host's compiler build the kernels and the executor of
# tests/testing/host_executor/ run them as device "cuda".
set(DTRAIN_WITH_CUDA OFF)
if(DTRAIN_CUDA STREQUAL "HOST")
  set(DTRAIN_WITH_CUDA HOST)
elseif(NOT DTRAIN_CUDA STREQUAL "OFF")
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(DTRAIN_NVCC nvcc HINTS ${CUDAToolkit_ROOT}/bin $ENV{CUDA_PATH}/bin
      /usr/local/cuda/bin)
    mark_as_advanced(DTRAIN_NVCC)
    if(DTRAIN_NVCC)
      set(CMAKE_CUDA_COMPILER ${DTRAIN_NVCC})
    endif()
  endif()
  if(CMAKE_CUDA_COMPILER)
    set(DTRAIN_WITH_CUDA ON)
  elseif(DTRAIN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DTRAIN_CUDA=ON needs the CUDA toolkit: put nvcc into PATH, or give "
      "-DCMAKE_CUDA_COMPILER=/path/to/nvcc")
  endif()
endif()
# The executor, from tests/testing/host_executor/, and how it wants kernels compiled: their accesses
# are handed to its race detector, which stands where the thread sanitizer's library would, or to the
# address sanitizer. That one must know the executor's fibers and memory too (dtrain_watch_memory); the
# rest of the library has the preset asan.
set(DTRAIN_HOST_EXECUTOR executor.cc fiber.cc kernel_name.cc ptx_twins.cc race_detector.cc
  scheduler.cc shared_memory.cc streams.cc)
set(DTRAIN_HOST_KERNEL_OPTIONS -xc++ -Wno-unknown-pragmas)
if(DTRAIN_WATCH_KERNELS STREQUAL "address")
  set(DTRAIN_WATCH_OPTIONS -fsanitize=address -fno-omit-frame-pointer -g1)
  list(APPEND DTRAIN_HOST_KERNEL_OPTIONS ${DTRAIN_WATCH_OPTIONS})
  add_link_options(-fsanitize=address)
elseif(NOT DTRAIN_SANITIZE)
  list(APPEND DTRAIN_HOST_EXECUTOR race_runtime.cc)
  list(APPEND DTRAIN_HOST_KERNEL_OPTIONS -fsanitize=thread)
endif()

# Sources that tell the address sanitizer which memory is whose.
function(dtrain_watch_memory target)
  if(DTRAIN_WATCH_OPTIONS)
    set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES
      COMPILE_OPTIONS "${DTRAIN_WATCH_OPTIONS}" SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

if(DTRAIN_WITH_CUDA STREQUAL "ON")
  # T4, A100, H100/H200 and, for what comes later, code the driver compiles. 90a has instructions that
  # only the H100 and H200 have.
  set(dtrain_architectures 75-real 80-real 90a-real 90-virtual)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES ${dtrain_architectures} CACHE STRING "GPU architectures")
  endif()
  # No kernel spills registers on these. On others (87: Jetson Orin) one may, by some bytes: a warning.
  set(DTRAIN_PTXAS_OPTIONS -v,-warn-spills)
  if("${CMAKE_CUDA_ARCHITECTURES}" STREQUAL "${dtrain_architectures}")
    string(APPEND DTRAIN_PTXAS_OPTIONS ,-Werror)
  endif()
  if("${CMAKE_CUDA_ARCHITECTURES}" MATCHES "90a")
    add_compile_definitions($<$<COMPILE_LANGUAGE:CUDA>:DTRAIN_WITH_WARPGROUPS>)
  endif()
  if(DTRAIN_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${DTRAIN_CCACHE})
  endif()
  enable_language(CUDA)
  dtrain_require_version("the CUDA toolkit" "${CMAKE_CUDA_COMPILER_VERSION}" 12.4
    "-DCMAKE_CUDA_COMPILER=/path/to/nvcc chooses another one, -DDTRAIN_CUDA=OFF builds without GPUs.")
  # CMake before 3.25.2 does not know how nvcc 12 and later are told about C++20.
  if(CMAKE_VERSION VERSION_LESS 3.25.2)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA_STANDARD_LATEST 20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  find_package(CUDAToolkit REQUIRED)
endif()

# cuDNN's attention needs headers only: cudnn-frontend's (a Python package has them, or a folder
# given) and cuDNN's own (beside the toolkit's, or in a Python package).
set(DTRAIN_WITH_CUDNN OFF)
if(DTRAIN_WITH_CUDA STREQUAL "ON" AND NOT DTRAIN_CUDNN STREQUAL "OFF")
  execute_process(COMMAND python3 -c "import sysconfig; print(sysconfig.get_path('purelib'))"
    OUTPUT_VARIABLE dtrain_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_path(DTRAIN_CUDNN_FRONTEND_DIR cudnn_frontend.h HINTS ${dtrain_python}/include)
  find_path(DTRAIN_CUDNN_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
    ${dtrain_python}/nvidia/cudnn/include)
  mark_as_advanced(DTRAIN_CUDNN_FRONTEND_DIR DTRAIN_CUDNN_DIR)
  if(DTRAIN_CUDNN_FRONTEND_DIR AND DTRAIN_CUDNN_DIR)
    set(DTRAIN_WITH_CUDNN ON)
    set(DTRAIN_CUDNN_FOLDERS ${DTRAIN_CUDNN_FRONTEND_DIR} ${DTRAIN_CUDNN_DIR})
  elseif(DTRAIN_CUDNN STREQUAL "ON")
    message(FATAL_ERROR "DTRAIN_CUDNN=ON needs the headers of cudnn-frontend and cuDNN: "
      "pip install nvidia-cudnn-frontend nvidia-cudnn-cu13, or give their folders as "
      "-DDTRAIN_CUDNN_FRONTEND_DIR and -DDTRAIN_CUDNN_DIR")
  endif()
endif()

# Sources that include CUDA's headers, or what stands for them on the host executor.
function(dtrain_see_cuda)
  set(options)
  if(DTRAIN_WITH_CUDA STREQUAL "HOST")
    set(options -I${PROJECT_SOURCE_DIR}/tests -I${PROJECT_SOURCE_DIR}/tests/testing/host_executor/include)
  else()
    foreach(folder ${CUDAToolkit_INCLUDE_DIRS} ${DTRAIN_CUDNN_FOLDERS})
      list(APPEND options -isystem ${folder})
    endforeach()
  endif()
  set_property(SOURCE ${ARGN} TARGET_DIRECTORY dtrain APPEND PROPERTY COMPILE_OPTIONS ${options})
endfunction()

# Sources beside the kernels: they need CUDA's headers, and test builds have their own.
function(dtrain_cuda_sources)
  if(DTRAIN_WITH_CUDA STREQUAL "ON")
    target_sources(dtrain PRIVATE ${ARGN})
    dtrain_see_cuda(${ARGN})
  endif()
endfunction()

# ops/*_cuda.cu.
function(dtrain_cuda_kernels)
  if(NOT DTRAIN_WITH_CUDA)
    return()
  endif()
  target_sources(dtrain PRIVATE ${ARGN})
  if(DTRAIN_WITH_CUDA STREQUAL "HOST")
    foreach(file ${ARGN})
      set_source_files_properties(${file} TARGET_DIRECTORY dtrain PROPERTIES LANGUAGE CXX
        COMPILE_OPTIONS "${DTRAIN_HOST_KERNEL_OPTIONS}" SKIP_PRECOMPILE_HEADERS ON)
    endforeach()
    dtrain_see_cuda(${ARGN})
  endif()
endfunction()

# comm/internal/nccl_library.cc, which loads NCCL when it is first used. Where nccl.h is there, our
# declarations are compared with it.
function(dtrain_nccl_sources)
  if(DTRAIN_WITH_CUDA STREQUAL "HOST")
    return()  # tests/testing/host_executor/nccl.cc
  endif()
  if(DTRAIN_NCCL STREQUAL "OFF")
    target_sources(dtrain PRIVATE internal/nccl_library_absent.cc)
    return()
  endif()
  target_sources(dtrain PRIVATE internal/nccl_library.cc)
  target_link_libraries(dtrain PRIVATE ${CMAKE_DL_LIBS})
  if(DTRAIN_WITH_CUDA)
    find_path(DTRAIN_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    mark_as_advanced(DTRAIN_NCCL_INCLUDE_DIR)
  endif()
  if(DTRAIN_NCCL_INCLUDE_DIR)
    target_sources(dtrain PRIVATE internal/nccl_abi.cc)
    dtrain_see_cuda(internal/nccl_abi.cc)
    set_property(SOURCE internal/nccl_abi.cc TARGET_DIRECTORY dtrain APPEND PROPERTY
      COMPILE_OPTIONS -isystem ${DTRAIN_NCCL_INCLUDE_DIR})
  elseif(DTRAIN_NCCL STREQUAL "ON")
    message(FATAL_ERROR "DTRAIN_NCCL=ON needs the CUDA device (DTRAIN_CUDA=ON) and nccl.h. On "
      "Debian: apt-get install libnccl-dev, or give -DDTRAIN_NCCL_INCLUDE_DIR=/path")
  endif()
endfunction()
