// classifier_export.cc - a BERT classifier under the names and in the layout of transformers.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "dtrain/app/bert_options.h"
#include "dtrain/app/hf_export.h"
#include "dtrain/app/internal/as_written.h"
#include "dtrain/app/internal/hf_folder.h"
#include "dtrain/app/internal/trained_classifier.h"
#include "dtrain/bert.pb.h"
#include "dtrain/train/checkpoint_directory.h"
#include "dtrain/train/train_state.h"

namespace dtrain {
namespace {

using internal::AsWritten;
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

// The line of a piece, or null.
Json IdOf(std::string_view piece, const std::string& vocabulary) {
  const std::vector<std::string> pieces = absl::StrSplit(vocabulary, '\n');
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id] == piece) return id;
  }
  return nullptr;
}

Json ConfigJson(const TrainedClassifier& trained, const BertClassifierOptions& options,
                const std::string& vocabulary) {
  const BertOptions& bert = options.bert;
  Json names = Json::object();
  Json ids = Json::object();
  for (int64_t i = 0; i < options.num_labels; ++i) {
    const auto at = static_cast<size_t>(i);
    const std::string name =
        at < trained.label_names.size() ? trained.label_names[at] : absl::StrFormat("LABEL_%d", i);
    names[std::to_string(i)] = name;
    ids[name] = i;
  }
  return {{"architectures", {"BertForSequenceClassification"}},
          {"model_type", "bert"},
          {"vocab_size", bert.vocab_size},
          {"hidden_size", bert.hidden_size},
          {"num_hidden_layers", bert.num_layers},
          {"num_attention_heads", bert.num_heads},
          {"intermediate_size", bert.ffn_size},
          {"hidden_act", internal::HfActivationName(bert.activation)},
          {"hidden_dropout_prob", AsWritten(bert.dropout)},
          {"attention_probs_dropout_prob", AsWritten(bert.attention_dropout)},
          {"classifier_dropout", AsWritten(options.classifier_dropout)},
          {"max_position_embeddings", bert.max_positions},
          {"type_vocab_size", bert.type_vocab_size},
          {"initializer_range", AsWritten(bert.initializer_range)},
          {"layer_norm_eps", AsWritten(bert.layer_norm_epsilon)},
          {"pad_token_id", IdOf("[PAD]", vocabulary)},
          {"position_embedding_type", "absolute"},
          {"problem_type", ProblemType(trained)},
          {"id2label", names},
          {"label2id", ids},
          {"torch_dtype", "float32"}};
}

Json SpecialTokensJson() {
  return {{"unk_token", "[UNK]"},
          {"sep_token", "[SEP]"},
          {"pad_token", "[PAD]"},
          {"cls_token", "[CLS]"},
          {"mask_token", "[MASK]"}};
}

Json TokenizerConfigJson(const TrainedClassifier& trained, int64_t max_positions) {
  using Data = proto::ClassificationDataConfig;
  const Data& data = trained.config->data();
  const Json strip_accents =
      data.accents() == Data::with_capitals ? Json(nullptr) : Json(data.accents() == Data::strip);
  Json json = {{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", data.lower_case()},
               {"do_basic_tokenize", true},          {"never_split", nullptr},
               {"strip_accents", strip_accents},     {"tokenize_chinese_chars", true},
               {"model_max_length", max_positions},  {"clean_up_tokenization_spaces", false}};
  json.update(SpecialTokensJson());
  return json;
}

}  // namespace

absl::StatusOr<std::string> ExportClassifierToHuggingFace(const std::string& checkpoint_path,
                                                          const std::string& directory,
                                                          const HfExportOptions& options) {
  DT_ASSIGN_OR_RETURN(const TrainedClassifier trained, OpenTrainedClassifier(checkpoint_path, ""));
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<BertClassifier> model,
                      LoadClassifier(trained, Device{}, DType::kFloat32));
  DT_ASSIGN_OR_RETURN(const std::string vocabulary, trained.checkpoint.ReadText("vocab.txt"));
  const BertClassifierOptions& shape = model->options();
  const internal::HfFile files[] = {
      {"vocab.txt", vocabulary},
      {"special_tokens_map.json", SpecialTokensJson().dump(2) + "\n"},
      {"tokenizer_config.json",
       TokenizerConfigJson(trained, shape.bert.max_positions).dump(2) + "\n"},
      {"config.json", ConfigJson(trained, shape, vocabulary).dump(2) + "\n"}};
  DT_RETURN_IF_ERROR(internal::WriteHfFolder(directory, options.overwrite,
                                             internal::HfTensors(model->parameters()), files));
  return "BertForSequenceClassification";
}

absl::StatusOr<HfExportResult> ExportRunToHuggingFace(const std::string& path,
                                                      const std::string& metric,
                                                      const std::string& directory,
                                                      const HfExportOptions& options) {
  DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                      OpenCheckpoint(path, metric.empty() ? BestMetricOf(path) : metric));
  HfExportResult result{.class_name = {}, .checkpoint = checkpoint.path()};
  if (checkpoint.Has("vocab.txt")) {
    DT_ASSIGN_OR_RETURN(result.class_name,
                        ExportClassifierToHuggingFace(result.checkpoint, directory, options));
  } else {
    DT_ASSIGN_OR_RETURN(const TranslationModel trained, LoadTranslationModel(result.checkpoint));
    DT_ASSIGN_OR_RETURN(result.class_name, ExportToHuggingFace(trained, directory, options));
  }
  return result;
}

}  // namespace dtrain
