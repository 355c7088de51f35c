// program_config.h - a configuration of nmt_train or bert_classify, told apart by its keys.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_DTRAIN_PROGRAM_CONFIG_H_
#define DTRAIN_TOOLS_DTRAIN_PROGRAM_CONFIG_H_

#include <variant>

#include "absl/status/statusor.h"
#include "dtrain/app/config.h"
#include "dtrain/bert.pb.h"
#include "dtrain/nmt.pb.h"

namespace dtrain {

using ProgramConfig = std::variant<proto::NmtConfig, proto::BertConfig>;

// The sources upon the defaults of the program that knows all their keys; what fits both is
// nmt_train's. UsageError: it fits neither, or a value breaks the rules of its field.
absl::StatusOr<ProgramConfig> LoadProgramConfig(const ConfigSources& sources);

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_DTRAIN_PROGRAM_CONFIG_H_
