// bert_workload.h - the Workload of a program that trains on texts.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_BERT_WORKLOAD_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_BERT_WORKLOAD_H_

#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/shared/bert_head.h"
#include "dtrain/tasks/shared/bert_memory.h"
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
Status CheckTextWorkload(const TextSections& sections, const WorkloadOptions& options);

// A model of texts, for planning.
struct TextModel {
  std::string row;  // of a batch: "text", "window", "example"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  ModelParameters parameters = {};
  GradientShapes gradients = {};
  BertCosts costs = nullptr;
};
// The workload of sections that CheckTextWorkload() has passed.
StatusOr<Workload> MakeTextWorkload(const TextSections& sections, const TextModel& model,
                                    const WorkloadOptions& options);
// The model of a complete shape with a head.
TextModel TextModelOf(const BertHead& head);

// The workload of a configuration that ValidateWithoutData() has passed.
// StatusOr<BertHead> head_of(const Config&) makes the head of a configuration with a shape.
template <typename Config, typename HeadOf>
StatusOr<Workload> BertWorkloadOf(const Config& given, const WorkloadOptions& options,
                                  const HeadOf& head_of) {
  Config config = given;
  std::vector<std::string> notes;
  DT_ASSIGN_OR_RETURN(const bool found_shape, TryLoadPretrainedShape(config));
  DT_RETURN_IF_ERROR(
      CompleteShape(found_shape, config.data().vocabulary(), *config.mutable_model(), notes));
  // The shape may be that of files, which no rule of the configuration has seen.
  DT_RETURN_IF_ERROR(ValidateBertModel(config.model()));
  DT_RETURN_IF_ERROR(ValidateTextLength(config));
  const BertSections sections = SectionsOf(config);
  DT_RETURN_IF_ERROR(CheckTextWorkload(sections, options));
  DT_ASSIGN_OR_RETURN(const BertHead head, head_of(config));
  DT_ASSIGN_OR_RETURN(Workload workload, MakeTextWorkload(sections, TextModelOf(head), options));
  workload.notes = std::move(notes);
  return workload;
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_BERT_WORKLOAD_H_
