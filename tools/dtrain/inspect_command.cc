// inspect_command.cc - `dtrain inspect DIR`: what a model folder is, and what training would load.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/printable.h"
#include "dtrain/classification.pb.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/models/pretrained_weights.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/tasks/classification/head.h"
#include "dtrain/tasks/pretraining/head.h"
#include "dtrain/tasks/question_answering/head.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/pretrained_shape.h"
#include "dtrain/tasks/shared/internal/tokenization.h"
#include "dtrain/tasks/token_classification/head.h"
#include "dtrain/tasks/translation/internal/marian_folder.h"
#include "dtrain/tasks/translation/options.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"
#include "dtrain/tokenizers/text_tokenizer.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/run_command.h"

namespace dtrain {
namespace {

// A folder as a program would start from it.
struct ModelFolder {
  proto::ClassificationConfig config;
  BertOptions encoder;
  TextTokenizer tokenizer;
};

StatusOr<ModelFolder> Open(const std::string& path) {
  proto::ClassificationConfig config;
  config.mutable_model()->set_pretrained(path);
  config.mutable_data()->set_max_length(3);  // the shortest text fits every model
  DT_RETURN_IF_ERROR(internal::LoadPretrainedShape(config));
  DT_ASSIGN_OR_RETURN(
      TextTokenizer tokenizer,
      TextTokenizer::Load(config.data().vocabulary(), internal::TokenizationOf(config.data())));
  BertOptions encoder = EncoderOptionsOf(config.model());
  if (encoder.vocab_size == 0) encoder.vocab_size = tokenizer.vocab_size();
  return ModelFolder{std::move(config), encoder, std::move(tokenizer)};
}

// Layers, each once: "classifier" for its weight and its bias.
std::string LayersOf(const std::vector<std::string>& parameters) {
  std::set<std::string> layers;
  for (const std::string& name : parameters) layers.insert(name.substr(0, name.rfind('.')));
  constexpr size_t kShown = 4;
  std::vector<std::string> shown(layers.begin(), layers.end());
  if (shown.size() <= kShown) return absl::StrJoin(shown, ", ");
  const size_t more = shown.size() - kShown;
  shown.resize(kShown);
  return absl::StrFormat("%s and %d more", absl::StrJoin(shown, ", "), more);
}

// Rows of a head's matrix in the file: as many classes as it was trained for. 2 where it has none.
int64_t ClassesOf(const WeightFile& weights, std::string_view layer) {
  const std::string name = std::string(layer) + ".weight";
  for (const WeightTensor& tensor : weights.tensors()) {
    if (tensor.tensor.name == name && !tensor.tensor.shape.empty()) return tensor.tensor.shape[0];
  }
  return 2;
}

// One line for a task: what of its model the folder has not.
template <typename Model>
Status PrintTask(const char* program, const std::string& path, Model&& model,
                 const EncoderFamily& family) {
  const StatusOr<PretrainedReport> report = MatchPretrainedWeights(
      path, model.parameters(), {.family = &family, .may_be_new = {""}, .allow_missing = true});
  if (!report.ok()) return report.status();
  std::string text = report->initialised.empty() ? "all weights are here"
                                                 : "new weights: " + LayersOf(report->initialised);
  for (const std::string& note : report->notes) text += "; " + note;
  std::printf("  %-14s %s\n", program, text.c_str());
  return OkStatus();
}

void PrintWeights(const WeightFile& weights) {
  int64_t numbers = 0;
  for (const WeightTensor& tensor : weights.tensors()) {
    int64_t elements = 1;
    for (const int64_t extent : tensor.tensor.shape) elements *= extent;
    numbers += elements;
  }
  std::printf("  %-14s %s: %zu tensors, %.2f million numbers\n", "weights", weights.path().c_str(),
              weights.tensors().size(), static_cast<double>(numbers) * 1e-6);
}

// The tokens that choose the target language of a model of many: ">>deu<<".
std::string LanguagesOf(const TranslationTokenizer& tokenizer) {
  std::vector<std::string> languages;
  for (int32_t id = 0; id < tokenizer.vocab_size(MarianSide::kSource); ++id) {
    const std::string_view piece = tokenizer.Piece(id, MarianSide::kSource);
    if (piece.starts_with(">>") && piece.ends_with("<<")) languages.emplace_back(piece);
  }
  return PrintableList(languages, 8);
}

// A translator: what nmt_train would start from.
Status InspectTranslator(const std::string& path) {
  proto::NmtConfig config;
  DT_RETURN_IF_ERROR(internal::ReadMarianFolder(path, config));
  DT_ASSIGN_OR_RETURN(const TranslationTokenizer tokenizer, TranslationTokenizer::Load(path));
  DT_ASSIGN_OR_RETURN(const WeightFile weights, WeightFile::Open(path));
  Seq2SeqOptions options = ModelOptionsOf(config.model());
  TakeVocabulary(tokenizer, options);
  Seq2SeqTransformer model(options);
  DT_ASSIGN_OR_RETURN(const PretrainedReport report,
                      internal::MatchMarianWeights(path, model.parameters()));
  std::printf("%s: Marian\n", path.c_str());
  std::printf("  %-14s %d + %d layers of %d, %d heads, ffn %d, texts of up to %d pieces\n", "shape",
              options.encoder_layers, options.decoder_layers, static_cast<int>(options.hidden_size),
              options.num_heads, static_cast<int>(options.ffn_size),
              static_cast<int>(options.max_positions - 1));
  PrintWeights(weights);
  const std::string sources =
      tokenizer.has_separate_vocabularies()
          ? absl::StrFormat("%d + ", tokenizer.vocab_size(MarianSide::kSource))
          : "";
  std::printf("  %-14s %s: %s, %s%d pieces\n", "tokenizer", path.c_str(),
              tokenizer.bos_id() < 0 ? "Marian" : "BPE", sources.c_str(), tokenizer.vocab_size());
  const std::string languages = LanguagesOf(tokenizer);
  if (!languages.empty()) {
    std::printf("  %-14s begin each source with one of %s\n", "languages", languages.c_str());
  }
  std::printf("  %-14s %s\n", "nmt_train",
              report.initialised.empty() ? "all weights are here"
                                         : "without final_logits_bias, which is then zero");
  return OkStatus();
}

Status Inspect(const std::string& path) {
  if (internal::IsMarianFolder(path)) return InspectTranslator(path);
  DT_ASSIGN_OR_RETURN(const ModelFolder folder, Open(path));
  const BertOptions& encoder = folder.encoder;
  const EncoderFamily& family = *encoder.family;
  DT_ASSIGN_OR_RETURN(const WeightFile weights, WeightFile::Open(path));
  std::printf("%s: %s\n", path.c_str(), std::string(family.title).c_str());
  std::printf("  %-14s %d layers of %d, %d heads, ffn %d, texts of up to %d tokens\n", "shape",
              encoder.num_layers, static_cast<int>(encoder.hidden_size), encoder.num_heads,
              static_cast<int>(encoder.ffn_size), static_cast<int>(encoder.max_positions));
  PrintWeights(weights);
  std::printf("  %-14s %s: %s, %d pieces\n", "tokenizer", folder.config.data().vocabulary().c_str(),
              std::string(folder.tokenizer.kind()).c_str(), folder.tokenizer.vocab_size());
  const int64_t classes = ClassesOf(weights, family.classifier.output);
  const int64_t tags = ClassesOf(weights, "classifier");
  DT_RETURN_IF_ERROR(PrintTask("bert_classify", path,
                               BertClassifier({.bert = encoder, .num_labels = classes}), family));
  DT_RETURN_IF_ERROR(PrintTask("bert_tag", path,
                               BertTokenClassifier({.bert = encoder, .num_tags = tags}), family));
  DT_RETURN_IF_ERROR(PrintTask("bert_squad", path, BertQuestionAnswering(encoder), family));
  return PrintTask("bert_pretrain", path,
                   BertPretraining({.bert = encoder, .next_sentence = family.has_next_sentence}),
                   family);
}

}  // namespace

int InspectCommand(int argc, char** argv) {
  std::string path;
  FlagSet set("dtrain inspect MODEL_FOLDER",
              "says what a model folder is, of Hugging Face's transformers or a checkpoint of an "
              "encoder, whether dtrain can start from it, and which weights would be new in each "
              "task");
  const auto parse = [&]() -> Status {
    DT_ASSIGN_OR_RETURN(const std::vector<std::string> paths, set.Parse(argc, argv));
    if (set.help_wanted()) return OkStatus();
    if (paths.size() != 1) return UsageError("give one folder: dtrain inspect MODEL_FOLDER");
    path = paths.front();
    return OkStatus();
  };
  const Status parsed = parse();
  return RunCommand(argc, argv, set, parsed, {}, [&](Runtime&) { return Inspect(path); });
}

}  // namespace dtrain
