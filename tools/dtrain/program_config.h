// program_config.h - a configuration of one of the programs, told apart by its keys or by name.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_DTRAIN_PROGRAM_CONFIG_H_
#define DTRAIN_TOOLS_DTRAIN_PROGRAM_CONFIG_H_

#include <google/protobuf/message.h>

#include <memory>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/config/config.h"

namespace dtrain {

// The names of all programs, "a, b or c" where `word` is "or".
std::string ProgramNames(std::string_view word);

// For the help of the flags that become `sources.files` and `program`.
std::string ConfigHelp();
inline constexpr std::string_view kProgramHelp =
    "whose configuration it is, where its keys are of several programs";

// Reads the sources on top of the defaults of `program`, or with "" of the one program that knows
// all their keys. UsageError: there is no such program, no program or more than one knows the keys,
// or a value breaks the rules of its field.
StatusOr<std::unique_ptr<google::protobuf::Message>> LoadProgramConfig(const ConfigSources& sources,
                                                                       std::string_view program);

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_DTRAIN_PROGRAM_CONFIG_H_
