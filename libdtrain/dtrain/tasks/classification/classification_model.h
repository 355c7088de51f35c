// classification_model.h - opens a trained classifier: weights, tokenizer, names of its labels.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const ClassificationModel trained, LoadClassificationModel("runs/sst2"));
//   Context ctx(runtime.device, {.compute_type = trained.compute_type});
//   const auto answers = ClassifyTexts(trained, {{"a fine film"}, {"dull"}}, ctx);
//   const std::string& best = trained.label_names[static_cast<size_t>(answers.Class(0))];
#ifndef DTRAIN_TASKS_CLASSIFICATION_CLASSIFICATION_MODEL_H_
#define DTRAIN_TASKS_CLASSIFICATION_CLASSIFICATION_MODEL_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/base/status.h"
#include "dtrain/nn/context.h"
#include "dtrain/tasks/shared/load_model.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain {

class BertClassifier;

// The kind of a row's labels.
enum class LabelKind {
  kClass,      // one index into label_names
  kValue,      // one number for regression
  kMultiLabel  // 0/1, or a value between, for each of label_names
};

// A model ready to classify; its context must have the same compute type.
struct ClassificationModel {
  std::string path;  // of the checkpoint
  int64_t step = 0;
  std::string config_text;  // the run's configuration, a ClassificationConfig as text
  LabelKind label_kind = LabelKind::kClass;
  std::vector<std::string> label_names;  // of the outputs; none of kValue
  int64_t max_length = 128;              // tokens of a text that the run was trained with
  DType compute_type = DType::kFloat32;
  TextTokenizer tokenizer;
  std::shared_ptr<BertClassifier> model;  // shared by copies
};

// `path` is a run directory of bert_classify, a folder of checkpoints or one checkpoint. Weights
// are the moving average where the run kept one. StorageError (exit code 7): nothing there,
// damaged, of another program, or without vocabulary, labels or configuration; the message names
// the file.
StatusOr<ClassificationModel> LoadClassificationModel(const std::string& path,
                                                      const LoadModelOptions& options = {});

// Predictions for each row, in the order of the rows.
struct ClassificationPredictions {
  int64_t outputs = 1;                    // of a row
  std::vector<float> probabilities = {};  // [rows, outputs]; of kValue the values
  std::vector<float> losses = {};         // [rows], without weights; 0 where a row has no label

  int64_t rows() const { return static_cast<int64_t>(losses.size()); }
  // The probabilities of row i: [outputs].
  std::span<const float> row(int64_t i) const {
    return std::span(probabilities)
        .subspan(static_cast<size_t>(i * outputs), static_cast<size_t>(outputs));
  }
  // The most probable class of a row, the first of equals.
  int64_t Class(int64_t i) const;
};

// A text, or a pair of them.
struct ClassifiedText {
  std::string_view text;
  std::optional<std::string_view> pair = std::nullopt;
};

// Classifies texts on this rank alone and returns the results in their order; `losses` are 0. Texts
// are cut at max_length and run longest first, in batches of at most batch_tokens. The context must
// not be training.
ClassificationPredictions ClassifyTexts(const ClassificationModel& trained,
                                        std::span<const ClassifiedText> texts, Context& ctx,
                                        int64_t batch_tokens = 8192);
inline ClassificationPredictions ClassifyTexts(const ClassificationModel& trained,
                                               std::initializer_list<ClassifiedText> texts,
                                               Context& ctx) {
  return ClassifyTexts(trained, std::span(texts.begin(), texts.size()), ctx);
}

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_CLASSIFICATION_MODEL_H_
