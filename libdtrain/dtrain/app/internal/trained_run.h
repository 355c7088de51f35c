// trained_run.h - from a checkpoint back to the configuration of the run that wrote it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_APP_INTERNAL_TRAINED_RUN_H_
#define DTRAIN_APP_INTERNAL_TRAINED_RUN_H_

#include <initializer_list>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/train/checkpoint.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace dtrain::proto {
class BertModelConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

// Fills `config` with the checkpoint's config.textproto. StorageError: that, or another of `files`,
// is not there, so that `program` did not write it; or it cannot be read.
absl::Status ReadTrainedConfig(const Checkpoint& checkpoint,
                               std::initializer_list<const char*> files, std::string_view program,
                               google::protobuf::Message& config);

// Sets what `user` sets; its lists replace those of `config`, merging alone would append.
void OverlayConfig(const google::protobuf::Message& user, google::protobuf::Message& config);

// UsageError where `user` sets what makes a model otherwise than `own`, the checkpoint's: most of
// it no tensor's shape would show, and what comes out would be wrong.
absl::Status CheckModel(const proto::BertModelConfig& user, const proto::BertModelConfig& own,
                        const Checkpoint& checkpoint);

// UsageError unless `path`, which the user gave, holds the checkpoint's vocab.txt.
absl::Status CheckVocabulary(const std::string& path, const Checkpoint& checkpoint);

}  // namespace dtrain::internal

#endif  // DTRAIN_APP_INTERNAL_TRAINED_RUN_H_
