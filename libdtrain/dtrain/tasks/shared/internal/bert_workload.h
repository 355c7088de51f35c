// bert_workload.h - the Workload of a program that trains a BERT.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_BERT_WORKLOAD_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_BERT_WORKLOAD_H_

#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/shared/bert_head.h"
#include "dtrain/tasks/shared/internal/bert_sections.h"
#include "dtrain/tasks/shared/internal/pretrained_shape.h"
#include "dtrain/tasks/shared/internal/validate_bert.h"
#include "dtrain/tasks/shared/workload.h"

namespace dtrain::internal {

// Gives the section its shape, where `found_shape` says that no file of pretrained weights did, and
// model.vocab_size: the pieces of the vocabulary, those of a config.json, or BERT's 30,522. `notes`
// receives a line for each file that would have given it and is not here. UsageError:
// model.pretrained is not here, and the configuration has no shape of its own.
Status CompleteShape(bool found_shape, const std::string& vocabulary, proto::BertModelConfig& model,
                     std::vector<std::string>& notes);

// UsageError where the lengths are none of its texts.
Status CheckBertWorkload(const BertSections& sections, const WorkloadOptions& options);

// The workload of sections with a complete shape.
StatusOr<Workload> MakeBertWorkload(const BertSections& sections, const BertHead& head,
                                    const WorkloadOptions& options);

// The workload of a configuration that ValidateWithoutData() has passed.
// StatusOr<BertHead> head_of(const Config&) makes the head of a configuration with a shape.
template <typename Config, typename HeadOf>
StatusOr<Workload> BertWorkloadOf(const Config& given, const WorkloadOptions& options,
                                  const HeadOf& head_of) {
  Config config = given;
  std::vector<std::string> notes;
  if (options.target_length != 0.0) {
    return UsageError("--target_length is of nmt_train's sentences; use --source_length");
  }
  DT_ASSIGN_OR_RETURN(const bool found_shape, TryLoadPretrainedShape(config));
  DT_RETURN_IF_ERROR(
      CompleteShape(found_shape, config.data().vocabulary(), *config.mutable_model(), notes));
  // The shape may be that of files, which no rule of the configuration has seen.
  DT_RETURN_IF_ERROR(ValidateBertModel(config.model()));
  DT_RETURN_IF_ERROR(ValidateTextLength(config));
  const BertSections sections = SectionsOf(config);
  DT_RETURN_IF_ERROR(CheckBertWorkload(sections, options));
  DT_ASSIGN_OR_RETURN(const BertHead head, head_of(config));
  DT_ASSIGN_OR_RETURN(Workload workload, MakeBertWorkload(sections, head, options));
  workload.notes = std::move(notes);
  return workload;
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_BERT_WORKLOAD_H_
