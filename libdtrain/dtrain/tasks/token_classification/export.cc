// export.cc - a BERT tagger under the names and in the layout of transformers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/export.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "dtrain/tasks/shared/internal/bert_export.h"
#include "dtrain/tasks/shared/internal/tokenization.h"
#include "dtrain/tasks/token_classification/internal/trained_tagger.h"

namespace dtrain {
namespace {

using Json = nlohmann::ordered_json;

Json TagFields(const std::vector<std::string>& tags) {
  Json names = Json::object();
  Json numbers = Json::object();
  for (size_t i = 0; i < tags.size(); ++i) {
    names[std::to_string(i)] = tags[i];
    numbers[tags[i]] = i;
  }
  return {{"id2label", names}, {"label2id", numbers}};
}

}  // namespace

StatusOr<std::string> ExportTaggerToHuggingFace(const std::string& checkpoint_path,
                                                const std::string& directory,
                                                const HfExportOptions& options) {
  DT_ASSIGN_OR_RETURN(const internal::TrainedTagger trained,
                      internal::OpenTrainedTagger(checkpoint_path));
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<BertTokenClassifier> model,
                      internal::LoadTagger(trained, Device{}, DType::kFloat32));
  const internal::BertExport bert{.head = "TokenClassification",
                                  .encoder = model->options().bert,
                                  .parameters = model->parameters(),
                                  .tokenization = internal::TokenizationOf(trained.config.data()),
                                  .classifier_dropout = model->options().classifier_dropout,
                                  .pretrained = trained.config.model().pretrained(),
                                  .fields = TagFields(trained.tags)};
  DT_RETURN_IF_ERROR(internal::WriteBertExport(bert, trained.checkpoint, directory, options));
  return bert.class_name();
}

}  // namespace dtrain
