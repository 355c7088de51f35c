// step_ring.h - a queue of what the device decided about the last updates, for the host to read.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_STEP_RING_H_
#define DTRAIN_TRAIN_STEP_RING_H_

#include <array>
#include <cstddef>

#include "dtrain/device/buffer.h"
#include "dtrain/device/event.h"
#include "dtrain/optim/step_state.h"

namespace dtrain {

// The queue lies in pinned memory. The host reads the state of an update while the device computes
// the next ones, so that neither waits for the other. On the CPU it reads at once.
class StepRing {
 public:
  // The number of states that may wait to be read.
  static constexpr size_t kSlots = 4;

  explicit StepRing(const Device& device)
      : slots_(device, kSlots * sizeof(StepState), ArenaMemory::kPinned),
        lag_(device.type == DeviceType::kCpu ? 0 : 2) {}

  // Adds the state as it is when the stream reaches this point.
  void Push(const DeviceStep& step, Stream& stream) {
    DT_CHECK_LT(size_, kSlots);
    const size_t slot = (first_ + size_++) % kSlots;
    step.CopyTo(Slot(slot), stream);
    arrived_[slot].Record(stream);
  }
  // Removes the oldest state. Waits until the device has written it.
  StepState Pop() {
    DT_CHECK_GT(size_, size_t{0});
    arrived_[first_].Wait();
    const StepState state = *Slot(first_);
    first_ = (first_ + 1) % kSlots;
    --size_;
    return state;
  }
  // Whether more states wait than the device needs to stay busy.
  bool is_due() const { return size_ > lag_; }
  bool empty() const { return size_ == 0; }

 private:
  StepState* Slot(size_t i) { return reinterpret_cast<StepState*>(slots_.data()) + i; }

  Buffer slots_;
  std::array<Event, kSlots> arrived_;
  size_t lag_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_STEP_RING_H_
