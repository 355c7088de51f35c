// program_config.h - a configuration of one of the programs, told apart by its keys or by name.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_DTRAIN_PROGRAM_CONFIG_H_
#define DTRAIN_TOOLS_DTRAIN_PROGRAM_CONFIG_H_

#include <string_view>
#include <variant>

#include "dtrain/base/status.h"
#include "dtrain/bert.pb.h"
#include "dtrain/config/config.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/pretrain.pb.h"
#include "dtrain/squad.pb.h"

namespace dtrain {

using ProgramConfig =
    std::variant<proto::NmtConfig, proto::BertConfig, proto::PretrainConfig, proto::SquadConfig>;

// For the help of the flags that become `sources.files` and `program`.
inline constexpr std::string_view kConfigHelp =
    "textproto file of nmt_train, bert_classify, bert_pretrain or bert_squad; may be given several "
    "times";
inline constexpr std::string_view kProgramHelp =
    "whose configuration it is, where its keys are of several programs";

// The sources upon the defaults of `program`, or where that is "" of the one that knows all their
// keys. UsageError: there is no such program, no program or more than one knows the keys, or a
// value breaks the rules of its field.
StatusOr<ProgramConfig> LoadProgramConfig(const ConfigSources& sources, std::string_view program);

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_DTRAIN_PROGRAM_CONFIG_H_
