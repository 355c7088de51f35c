// kernel_plan_file.cc - the root rank measures what its file does not know, and tells the others.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/internal/kernel_plan_file.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/log.h"
#include "dtrain/comm/gather.h"
#include "dtrain/comm/root_status.h"

namespace dtrain::internal {
namespace {

// Plans of the file, if it is there and good for this GPU.
Status ReadPlans(const PlanKind& kind, const std::string& path, const Device& device) {
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return OkStatus();
  DT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  const StatusOr<bool> fits = kind.use(text, path, device);
  if (!fits.ok()) {
    LogWarning(absl::StrFormat("%s (measured anew now)", fits.status().message()));
  } else if (!*fits) {
    LogInfo(absl::StrFormat("%s: plans of another GPU or %s; measured anew", path, kind.library));
  }
  return OkStatus();
}

// On the root rank: reads, measures, writes; `text` is what all ranks shall use.
StatusOr<PlanReport> PrepareOnRoot(const PlanKind& kind, const std::string& path,
                                   const Device& device, const std::function<void()>& measure,
                                   std::string& text) {
  DT_RETURN_IF_ERROR(ReadPlans(kind, path, device));
  PlanReport report{.read = kind.count()};
  measure();
  report.measured = kind.count() - report.read;
  text = kind.print(device);
  if (report.measured > 0 && !path.empty()) {
    DT_RETURN_IF_ERROR(MakeDirectories(ParentOf(path)));
    DT_RETURN_IF_ERROR(WriteFileAtomically(path, text));
  }
  return report;
}

}  // namespace

StatusOr<PlanReport> PreparePlans(const PlanKind& kind, const std::string& path,
                                  const Device& device, Communicator& comm,
                                  const std::function<void()>& measure) {
  std::string text;
  StatusOr<PlanReport> report = PlanReport();
  if (comm.is_root()) report = PrepareOnRoot(kind, path, device, measure, text);
  DT_RETURN_IF_ERROR(ShareRootStatus(report.status(),
                                     absl::StrCat("write the plans of ", ToAbsl(kind.what)), comm));
  text = BroadcastString(comm, text);
  if (comm.is_root()) return report;
  DT_ASSIGN_OR_RETURN(const bool fits, kind.use(text, "plans of rank 0", device));
  if (!fits) {
    LogWarning(
        absl::StrFormat("this rank's GPU or %s is another than rank 0's: its %s are not tuned",
                        kind.library, kind.what));
  }
  report->read = kind.count();
  return report;
}

}  // namespace dtrain::internal
