// contract.h - what all ranks must agree on before the first step, checked once.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_RETURN_IF_ERROR(CheckContract({{"version", kVersion},
//                                     {"configuration", config_text},
//                                     {"parameters", "encoder.0.weight float32 [512, 512]\n..."},
//                                     {"data", train_hash}}, comm));
#ifndef DTRAIN_DISTRIBUTED_CONTRACT_H_
#define DTRAIN_DISTRIBUTED_CONTRACT_H_

#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"

namespace dtrain {

// A canonical text: equal on two ranks exactly where they agree. Lines are compared one by one.
struct ContractSection {
  std::string name;
  std::string text;
};

// One small message where all ranks agree. Otherwise every rank returns the same UsageError, which
// names the first section that differs, its first differing line, and who says what. Collective.
Status CheckContract(const std::vector<ContractSection>& sections, Communicator& comm);

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_CONTRACT_H_
