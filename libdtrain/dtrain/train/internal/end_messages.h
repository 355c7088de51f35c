// end_messages.h - what a trainer says about the end of a run that is not a plain success.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_INTERNAL_END_MESSAGES_H_
#define DTRAIN_TRAIN_INTERNAL_END_MESSAGES_H_

#include <cstdint>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/train/end_reason.h"

namespace dtrain::internal {

// DivergedError: the run has reached its end, but its last `skipped` updates were skipped.
Status EndedBroken(EndReason reason, int64_t step, int skipped, bool was_updated);
// Why a requested stop saves nothing after so many skipped updates.
std::string WhyUnsaved(int skipped);
// StoppedError. resume_hint: what the command needs besides to resume.
Status StoppedUnsaved(int64_t step, const std::string& why, bool has_checkpoint);
Status Stopped(int64_t step, bool is_saved, const std::string& resume_hint);
Status StoppedBeforeTests(bool is_saved, const std::string& resume_hint);

}  // namespace dtrain::internal

#endif  // DTRAIN_TRAIN_INTERNAL_END_MESSAGES_H_
