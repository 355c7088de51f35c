// end_messages.cc - what happened, what is saved and which command continues.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/internal/end_messages.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dtrain::internal {

Status EndedBroken(EndReason reason, int64_t step, int skipped, bool was_updated) {
  return DivergedError(absl::StrFormat(
      "%s is reached, but the gradients of the last %d updates hold NaN or infinity (step %d), and "
      "so nothing is saved of them; %s",
      Name(reason), skipped, step,
      was_updated
          ? "resume from the last checkpoint with a lower optimizer.learning_rate or more "
            "optimizer.warmup_steps"
          : "no update was possible: look at the weights and the data that the run began with"));
}

std::string WhyUnsaved(int skipped) {
  return absl::StrFormat(
      "the last %d updates gave no finite gradients, so that nothing is saved of this step",
      skipped);
}

Status StoppedUnsaved(int64_t step, const std::string& why, bool has_checkpoint) {
  return StoppedError(
      absl::StrFormat("stopped on request at step %d; %s: the same command %s", step, why,
                      has_checkpoint ? "goes on from the last checkpoint" : "begins anew"));
}

Status Stopped(int64_t step, bool is_saved, const std::string& resume_hint) {
  if (!is_saved) {
    return StoppedError(absl::StrFormat(
        "stopped on request at step %d; without checkpoint_dir nothing is saved", step));
  }
  return StoppedError(absl::StrFormat(
      "stopped on request at step %d with a good checkpoint; the same command%s goes on from there",
      step, resume_hint));
}

Status StoppedBeforeTests(bool is_saved, const std::string& resume_hint) {
  return StoppedError(absl::StrCat(
      "stopped on request before the test sets, if there are any; the training is complete",
      is_saved ? absl::StrCat(" and saved, the same command", resume_hint, " goes on with them")
               : ""));
}

}  // namespace dtrain::internal
