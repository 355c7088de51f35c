// export.cc - a BERT that answers questions, for transformers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/export.h"

#include <memory>
#include <string>

#include "dtrain/tasks/question_answering/internal/trained_question_answering.h"
#include "dtrain/tasks/shared/internal/bert_export.h"
#include "dtrain/tasks/shared/internal/tokenization.h"

namespace dtrain {

StatusOr<std::string> ExportSquadToHuggingFace(const std::string& checkpoint_path,
                                               const std::string& directory,
                                               const HfExportOptions& options) {
  DT_ASSIGN_OR_RETURN(const internal::TrainedSquad trained,
                      internal::OpenTrainedSquad(checkpoint_path, /*metric=*/""));
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<BertQuestionAnswering> model,
                      internal::LoadSquadModel(trained, Device{}, DType::kFloat32));
  const internal::BertExport bert{.head = "QuestionAnswering",
                                  .encoder = model->options(),
                                  .parameters = model->parameters(),
                                  .tokenization = internal::TokenizationOf(trained.config.data()),
                                  .pretrained = trained.config.model().pretrained()};
  DT_RETURN_IF_ERROR(internal::WriteBertExport(bert, trained.checkpoint, directory, options));
  return bert.class_name();
}

}  // namespace dtrain
