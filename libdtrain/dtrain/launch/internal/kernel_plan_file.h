// kernel_plan_file.h - measured plans: the root rank measures, a file keeps, all ranks use.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_INTERNAL_KERNEL_PLAN_FILE_H_
#define DTRAIN_LAUNCH_INTERNAL_KERNEL_PLAN_FILE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/device.h"
#include "dtrain/launch/kernel_plan_report.h"

namespace dtrain::internal {

// Plans of one kind, as the calling thread has them.
struct PlanKind {
  std::string_view what;     // "matrix products"
  std::string_view library;  // whose version they hold for
  size_t (*count)();
  std::string (*print)(const Device& device);
  StatusOr<bool> (*use)(std::string_view text, std::string_view path, const Device& device);
};

// All ranks take the root rank's plans: those of the file at `path`, if there is one, and what
// `measure` adds to them, which goes into the file. `measure` runs on the root rank alone. A file
// that is damaged, or of another GPU or library, is measured anew; a rank whose GPU or library
// differs from the root's says so and goes without. Collective. StorageError on all ranks where the
// file cannot be written.
StatusOr<PlanReport> PreparePlans(const PlanKind& kind, const std::string& path,
                                  const Device& device, Communicator& comm,
                                  const std::function<void()>& measure);

}  // namespace dtrain::internal

#endif  // DTRAIN_LAUNCH_INTERNAL_KERNEL_PLAN_FILE_H_
