// export.cc - a pre-trained BERT with the heads it was trained with, for transformers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/export.h"

#include <memory>
#include <string>

#include "dtrain/tasks/pretraining/internal/trained_pretraining.h"
#include "dtrain/tasks/shared/internal/bert_export.h"
#include "dtrain/tasks/shared/internal/tokenization.h"

namespace dtrain {

StatusOr<std::string> ExportPretrainingToHuggingFace(const std::string& checkpoint_path,
                                                     const std::string& directory,
                                                     const HfExportOptions& options) {
  DT_ASSIGN_OR_RETURN(const internal::TrainedPretraining trained,
                      internal::OpenTrainedPretraining(checkpoint_path, /*metric=*/""));
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<BertPretraining> model,
                      internal::LoadPretrainingModel(trained, Device{}, DType::kFloat32));
  const BertPretrainingOptions& shape = model->options();
  // Both classes take the projection, and its bias a second time, from the tensors they are tied
  // to.
  const internal::BertExport bert{.head = shape.next_sentence ? "PreTraining" : "MaskedLM",
                                  .encoder = shape.bert,
                                  .parameters = model->parameters(),
                                  .tokenization = internal::TokenizationOf(trained.config.data()),
                                  .pretrained = trained.config.model().pretrained(),
                                  .fields = {{"tie_word_embeddings", true}}};
  DT_RETURN_IF_ERROR(internal::WriteBertExport(bert, trained.checkpoint, directory, options));
  return bert.class_name();
}

}  // namespace dtrain
