// address_space.h - a range of GPU addresses that memory is mapped into as needed.
// SPDX-License-Identifier: Apache-2.0
//
// Uses CUDA's virtual memory management: a block that grows keeps its addresses and stays in one
// piece. Test builds implement it on host memory.
#ifndef DTRAIN_DEVICE_CUDA_ADDRESS_SPACE_H_
#define DTRAIN_DEVICE_CUDA_ADDRESS_SPACE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "dtrain/device/device.h"

namespace dtrain::cuda {

class AddressSpace {
 public:
  // Memory is mapped in multiples of this. Drivers require multiples of 2 MiB.
  static constexpr size_t kPieceBytes = size_t{32} << 20;

  // Reserves at least `bytes` of addresses without memory. Returns nullptr if the GPU or its driver
  // does not support it.
  static std::unique_ptr<AddressSpace> Reserve(const Device& device, size_t bytes);
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  // Waits for the device's work, then unmaps the memory.
  ~AddressSpace();

  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  // Number of bytes from base() on that have memory.
  size_t backed() const { return backed_; }
  // Maps memory to the next `more` bytes, a multiple of kPieceBytes. Throws std::bad_alloc if the
  // GPU has too little; nothing has changed then.
  void Grow(size_t more);

 private:
  AddressSpace(const Device& device, std::byte* base, size_t bytes)
      : device_(device), base_(base), bytes_(bytes) {}

  Device device_;
  std::byte* base_;
  size_t bytes_;
  size_t backed_ = 0;
  std::vector<size_t> pieces_;  // bytes of each Grow(), because each is unmapped separately
};

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_ADDRESS_SPACE_H_
