// address_space.h - a range of a GPU's addresses behind which memory is put as it is needed.
// SPDX-License-Identifier: Apache-2.0
//
// CUDA's virtual memory management: what grows keeps its addresses and stays in one piece. Test
// builds define it on host memory.
#ifndef DTRAIN_DEVICE_CUDA_ADDRESS_SPACE_H_
#define DTRAIN_DEVICE_CUDA_ADDRESS_SPACE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "dtrain/device/device.h"

namespace dtrain::cuda {

class AddressSpace {
 public:
  // Memory comes in multiples of this; drivers ask for multiples of 2 MiB.
  static constexpr size_t kPieceBytes = size_t{32} << 20;

  // At least `bytes` of addresses, no memory yet. nullptr where the GPU or its driver cannot.
  static std::unique_ptr<AddressSpace> Reserve(const Device& device, size_t bytes);
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  // Waits for the device's work.
  ~AddressSpace();

  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  // The first so many bytes have memory.
  size_t backed() const { return backed_; }
  // Puts memory behind the next `more` bytes, a multiple of kPieceBytes. std::bad_alloc where there
  // is not enough, and nothing has changed then.
  void Grow(size_t more);

 private:
  AddressSpace(const Device& device, std::byte* base, size_t bytes)
      : device_(device), base_(base), bytes_(bytes) {}

  Device device_;
  std::byte* base_;
  size_t bytes_;
  size_t backed_ = 0;
  std::vector<size_t> pieces_;  // bytes of each Grow(): they are given back as they were taken
};

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_ADDRESS_SPACE_H_
