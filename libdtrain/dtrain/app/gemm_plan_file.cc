// gemm_plan_file.cc - the root rank measures what its file does not know, and tells the others.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/gemm_plan_file.h"

#include <filesystem>

#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/log.h"

namespace dtrain {
namespace {

// Plans of the file, if it is there and good for this GPU.
absl::Status ReadPlans(const std::string& path, const Device& device) {
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return absl::OkStatus();
  DT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  const absl::StatusOr<bool> fits = UseGemmPlans(text, path, device);
  if (!fits.ok()) {
    LogWarning(absl::StrFormat("%s (measured anew now)", MessageOf(fits.status())));
  } else if (!*fits) {
    LogInfo(absl::StrFormat("%s: plans of another GPU or cuBLASLt; measured anew", path));
  }
  return absl::OkStatus();
}

// On the root rank: reads, measures, writes; `text` is what all ranks shall use.
absl::StatusOr<GemmPlanReport> PrepareOnRoot(const GemmPlanOptions& options, const Device& device,
                                             const std::function<void()>& warm_up,
                                             std::string& text) {
  DT_RETURN_IF_ERROR(ReadPlans(options.path, device));
  GemmPlanReport report{.read = CountGemmPlans()};
  {
    const MeasureGemms measure;
    warm_up();
  }
  report.measured = CountGemmPlans() - report.read;
  text = PrintGemmPlans(device);
  if (report.measured > 0 && !options.path.empty()) {
    DT_RETURN_IF_ERROR(MakeDirectories(ParentOf(options.path)));
    DT_RETURN_IF_ERROR(WriteFileAtomically(options.path, text));
  }
  return report;
}

}  // namespace

absl::StatusOr<GemmPlanReport> PrepareGemmPlans(const GemmPlanOptions& options,
                                                const Device& device, Communicator& comm,
                                                const std::function<void()>& warm_up) {
  SetGemmTuning(options.tuning);
  if (options.tuning != GemmTuning::kMeasure || device.type == DeviceType::kCpu) {
    return GemmPlanReport();
  }
  std::string text;
  absl::StatusOr<GemmPlanReport> report = GemmPlanReport();
  if (comm.is_root()) report = PrepareOnRoot(options, device, warm_up, text);
  if (comm.AllReduceValue(static_cast<int32_t>(report.ok()), ReduceOp::kMin) == 0) {
    return report.ok() ? StorageError("the root rank could not write the plans of its products")
                       : report.status();
  }
  text = comm.BroadcastString(text);
  if (comm.is_root()) return report;
  DT_ASSIGN_OR_RETURN(const bool fits, UseGemmPlans(text, "plans of rank 0", device));
  if (!fits) {
    LogWarning("this rank's GPU or cuBLASLt is another than rank 0's: its products are not tuned");
  }
  report->read = CountGemmPlans();
  return report;
}

}  // namespace dtrain
