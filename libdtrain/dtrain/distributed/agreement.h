// agreement.h - checks once, before the first step, that all ranks run the same job.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_RETURN_IF_ERROR(CheckRanksAgree({{"version", kVersion},
//                                       {"configuration", config_text},
//                                       {"parameters", "encoder.0.weight float32 [512, 512]\n..."},
//                                       {"data", train_hash}}, comm));
#ifndef DTRAIN_DISTRIBUTED_AGREEMENT_H_
#define DTRAIN_DISTRIBUTED_AGREEMENT_H_

#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"

namespace dtrain {

// Something that all ranks must agree on, as a text: equal on two ranks exactly if they agree.
// Lines are compared one by one.
struct AgreementSection {
  std::string name;
  std::string text;
};

// Returns OK if all ranks agree; this costs one small message. Otherwise every rank returns the
// same UsageError, which names the first section that differs, its first differing line, and the
// ranks with each text. All ranks call it.
Status CheckRanksAgree(const std::vector<AgreementSection>& sections, Communicator& comm);

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_AGREEMENT_H_
