// address_space.cc - address_space.h on the driver's virtual memory management.
// SPDX-License-Identifier: Apache-2.0
//
// The driver's functions are found through the CUDA runtime, so that programs start on machines
// without a driver.
#include "dtrain/device/cuda/address_space.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <new>
#include <string>

#include "dtrain/device/cuda/check.h"
#include "dtrain/device/cuda/error.h"

namespace dtrain::cuda {
namespace {

struct Driver {
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuDeviceGetAttribute) attribute = nullptr;
  bool is_complete = true;
};

template <typename Function>
void Find(const char* name, Driver& driver, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  // 10020 is CUDA 10.2, the first release with these functions.
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, 10020, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) {
    static_cast<void>(cudaGetLastError());
    driver.is_complete = false;
    return;
  }
  function = reinterpret_cast<Function>(found);
}

const Driver& TheDriver() {
  static const Driver driver = [] {
    Driver d;
    Find("cuMemAddressReserve", d, d.reserve);
    Find("cuMemAddressFree", d, d.free);
    Find("cuMemCreate", d, d.create);
    Find("cuMemRelease", d, d.release);
    Find("cuMemMap", d, d.map);
    Find("cuMemUnmap", d, d.unmap);
    Find("cuMemSetAccess", d, d.set_access);
    Find("cuMemGetAllocationGranularity", d, d.granularity);
    Find("cuDeviceGetAttribute", d, d.attribute);
    return d;
  }();
  return driver;
}

CUmemAllocationProp Properties(const Device& device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.index;
  return properties;
}

CUdeviceptr Address(const std::byte* at) { return reinterpret_cast<CUdeviceptr>(at); }

// Maps memory to `bytes` addresses from `at` on. Returns the driver's error code.
CUresult Put(const Device& device, CUdeviceptr at, size_t bytes) {
  const Driver& driver = TheDriver();
  const CUmemAllocationProp properties = Properties(device);
  CUmemGenericAllocationHandle memory{};
  CUresult result = driver.create(&memory, bytes, &properties, 0);
  if (result != CUDA_SUCCESS) return result;
  result = driver.map(at, bytes, 0, memory, 0);
  // The mapping keeps the memory alive.
  driver.release(memory);
  if (result != CUDA_SUCCESS) return result;
  const CUmemAccessDesc access{.location = properties.location,
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  result = driver.set_access(at, bytes, &access, 1);
  if (result != CUDA_SUCCESS) driver.unmap(at, bytes);
  return result;
}

}  // namespace

std::unique_ptr<AddressSpace> AddressSpace::Reserve(const Device& device, size_t bytes) {
  DT_CHECK_CUDA(cudaSetDevice(device.index));
  // Creates the device's context, which the driver's functions need.
  DT_CHECK_CUDA(cudaFree(nullptr));
  const Driver& driver = TheDriver();
  if (!driver.is_complete) return nullptr;
  int is_supported = 0;
  size_t granularity = 0;
  const CUmemAllocationProp properties = Properties(device);
  if (driver.attribute(&is_supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                       device.index) != CUDA_SUCCESS ||
      is_supported == 0 ||
      driver.granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) !=
          CUDA_SUCCESS ||
      kPieceBytes % granularity != 0) {
    return nullptr;
  }
  bytes = (bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
  CUdeviceptr base = 0;
  if (driver.reserve(&base, bytes, 0, 0, 0) != CUDA_SUCCESS) return nullptr;
  return std::unique_ptr<AddressSpace>(
      new AddressSpace(device, reinterpret_cast<std::byte*>(base), bytes));
}

AddressSpace::~AddressSpace() {
  static_cast<void>(cudaSetDevice(device_.index));
  // cudaFree() waits for the device too.
  static_cast<void>(cudaDeviceSynchronize());
  const Driver& driver = TheDriver();
  std::byte* at = base_;
  for (const size_t piece : pieces_) {
    driver.unmap(Address(at), piece);
    at += piece;
  }
  driver.free(Address(base_), bytes_);
}

void AddressSpace::Grow(size_t more) {
  if (more > bytes_ - backed_) throw std::bad_alloc();
  DT_CHECK_CUDA(cudaSetDevice(device_.index));
  const CUresult result = Put(device_, Address(base_ + backed_), more);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) throw std::bad_alloc();
  if (result != CUDA_SUCCESS) {
    throw CudaError("cuMemCreate, cuMemMap or cuMemSetAccess: error " + std::to_string(result) +
                    " of the driver");
  }
  pieces_.push_back(more);
  backed_ += more;
}

}  // namespace dtrain::cuda
