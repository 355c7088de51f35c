// end_reason.h - why a run ended.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_END_REASON_H_
#define DTRAIN_TRAIN_END_REASON_H_

namespace dtrain {

enum class EndReason { kMaxSteps, kMaxTime, kMaxEpochs, kEarlyStop, kStopRequested };

// For people: "max_steps", "max_time", "max_epochs", "early stop", "stop requested".
constexpr const char* Name(EndReason reason) {
  switch (reason) {
    case EndReason::kMaxSteps:
      return "max_steps";
    case EndReason::kMaxTime:
      return "max_time";
    case EndReason::kMaxEpochs:
      return "max_epochs";
    case EndReason::kEarlyStop:
      return "early stop";
    case EndReason::kStopRequested:
      break;
  }
  return "stop requested";
}

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_END_REASON_H_
