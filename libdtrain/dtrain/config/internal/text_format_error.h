// text_format_error.h - parses textproto and explains errors in terms of the configuration.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_CONFIG_INTERNAL_TEXT_FORMAT_ERROR_H_
#define DTRAIN_CONFIG_INTERNAL_TEXT_FORMAT_ERROR_H_

#include <string>
#include <string_view>

#include "dtrain/base/status.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace dtrain::internal {

// Replaces `message` by the parsed text. Returns UsageError "name:line:column: problem, advice".
Status ParseTextFormat(std::string_view text, const std::string& name,
                       google::protobuf::Message& message);

}  // namespace dtrain::internal

#endif  // DTRAIN_CONFIG_INTERNAL_TEXT_FORMAT_ERROR_H_
