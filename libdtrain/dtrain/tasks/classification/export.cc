// export.cc - a BERT classifier under the names and in the layout of transformers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/export.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_format.h"
#include "dtrain/classification.pb.h"
#include "dtrain/tasks/classification/internal/trained_classifier.h"
#include "dtrain/tasks/shared/internal/bert_export.h"
#include "dtrain/tasks/shared/internal/tokenization.h"

namespace dtrain {
namespace {

using Json = nlohmann::ordered_json;

// Their names of the losses, by which their own trainers go on.
const char* ProblemType(const TrainedClassifier& trained) {
  switch (trained.label_kind) {
    case LabelKind::kValue:
      return "regression";
    case LabelKind::kMultiLabel:
      return "multi_label_classification";
    case LabelKind::kClass:
      break;
  }
  return "single_label_classification";
}

Json LabelFields(const TrainedClassifier& trained, int64_t num_labels) {
  Json names = Json::object();
  Json ids = Json::object();
  for (int64_t i = 0; i < num_labels; ++i) {
    const auto at = static_cast<size_t>(i);
    const std::string name =
        at < trained.label_names.size() ? trained.label_names[at] : absl::StrFormat("LABEL_%d", i);
    names[std::to_string(i)] = name;
    ids[name] = i;
  }
  return {{"problem_type", ProblemType(trained)}, {"id2label", names}, {"label2id", ids}};
}

}  // namespace

StatusOr<std::string> ExportClassifierToHuggingFace(const std::string& checkpoint_path,
                                                    const std::string& directory,
                                                    const HfExportOptions& options) {
  DT_ASSIGN_OR_RETURN(const TrainedClassifier trained, OpenTrainedClassifier(checkpoint_path, ""));
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<BertClassifier> model,
                      LoadClassifier(trained, Device{}, DType::kFloat32));
  const BertClassifierOptions& shape = model->options();
  const internal::BertExport bert{.head = "SequenceClassification",
                                  .encoder = shape.bert,
                                  .parameters = model->parameters(),
                                  .tokenization = internal::TokenizationOf(trained.config->data()),
                                  .classifier_dropout = shape.classifier_dropout,
                                  .mean_pooling = shape.mean_pooling,
                                  .pretrained = trained.config->model().pretrained(),
                                  .fields = LabelFields(trained, shape.num_labels)};
  DT_RETURN_IF_ERROR(internal::WriteBertExport(bert, trained.checkpoint, directory, options));
  return bert.class_name();
}

}  // namespace dtrain
