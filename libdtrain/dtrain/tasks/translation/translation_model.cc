// translation_model.cc - from a checkpoint's files to a model that translates.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/translation_model.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/config/config.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/tasks/shared/internal/trained_run.h"
#include "dtrain/tasks/translation/internal/marian_folder.h"
#include "dtrain/tasks/translation/options.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"
#include "dtrain/tasks/translation/translator.h"

namespace dtrain {
namespace {

using internal::AsStorageError;

// The run's configuration, whose model can be made.
StatusOr<proto::NmtConfig> ReadConfig(const Checkpoint& checkpoint) {
  proto::NmtConfig config;
  DT_RETURN_IF_ERROR(internal::ReadTrainedConfig(checkpoint, {"vocab.spm"}, "nmt_train", config));
  const std::string name = checkpoint.path() + "/config.textproto";
  DT_RETURN_IF_ERROR(AsStorageError(Annotate(CheckRules(config.model()), name)));
  DT_RETURN_IF_ERROR(AsStorageError(Annotate(CheckRules(config.trainer()), name)));
  const proto::ModelConfig& model = config.model();
  if (model.hidden_size() % model.num_heads() != 0 || model.hidden_size() % 2 != 0) {
    return StorageError(
        absl::StrFormat("%s: model.hidden_size %d is no even multiple of model.num_heads %d", name,
                        model.hidden_size(), model.num_heads()));
  }
  return config;
}

StatusOr<TranslationTokenizer> OpenTokenizer(const std::string& folder) {
  StatusOr<TranslationTokenizer> tokenizer = TranslationTokenizer::Load(folder);
  if (!tokenizer.ok()) return AsStorageError(tokenizer.status());
  return tokenizer;
}

Seq2SeqOptions ModelOptionsWith(const TranslationTokenizer& tokenizer,
                                const proto::NmtConfig& config) {
  Seq2SeqOptions options = ModelOptionsOf(config.model());
  TakeVocabulary(tokenizer, options);
  options.label_smoothing = config.trainer().label_smoothing();
  return options;
}

TranslationModel WithModel(const proto::NmtConfig& config, TranslationTokenizer tokenizer,
                           std::unique_ptr<Seq2SeqTransformer> model) {
  BeamSearchOptions search = SearchOptionsFor(tokenizer, SearchOptionsOf(config.trainer()));
  return {.path = {},
          .config_text = {},
          .max_length = config.data().max_length(),
          .compute_type = model->parameters().compute_type(),
          .search = std::make_shared<const BeamSearchOptions>(std::move(search)),
          .tokenizer = std::make_shared<const TranslationTokenizer>(std::move(tokenizer)),
          .model = std::move(model)};
}

StatusOr<TranslationModel> LoadPublishedModel(const std::string& folder,
                                              const LoadModelOptions& options) {
  proto::NmtConfig config;
  DT_RETURN_IF_ERROR(internal::ReadMarianFolder(folder, config));
  config.mutable_data()->set_max_length(config.model().max_positions() - 1);
  DT_ASSIGN_OR_RETURN(TranslationTokenizer tokenizer, OpenTokenizer(folder));
  const bool is_wide =
      options.compute_type == DType::kFloat16 && options.device.type == DeviceType::kCpu;
  auto model = std::make_unique<Seq2SeqTransformer>(ModelOptionsWith(tokenizer, config));
  model->Allocate(options.device, is_wide ? DType::kFloat32 : options.compute_type, /*seed=*/1);
  DT_RETURN_IF_ERROR(internal::LoadMarianWeights(folder, model->parameters()).status());
  TranslationModel published = WithModel(config, std::move(tokenizer), std::move(model));
  published.path = folder;
  published.config_text = PrintConfig(config, ConfigFormat::kFull);
  return published;
}

}  // namespace

StatusOr<TranslationModel> LoadTranslationModel(const std::string& path,
                                                const LoadModelOptions& options) {
  if (internal::IsPublishedFolder(path)) return LoadPublishedModel(path, options);
  DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                      internal::OpenBestCheckpoint(path, options.metric));
  DT_ASSIGN_OR_RETURN(const proto::NmtConfig config, ReadConfig(checkpoint));
  DT_ASSIGN_OR_RETURN(std::string config_text, checkpoint.ReadText("config.textproto"));
  DT_ASSIGN_OR_RETURN(TranslationTokenizer tokenizer, OpenTokenizer(checkpoint.path()));
  const Seq2SeqOptions model_options = ModelOptionsWith(tokenizer, config);
  DT_ASSIGN_OR_RETURN(std::unique_ptr<Seq2SeqTransformer> model,
                      internal::LoadModel<Seq2SeqTransformer>(
                          checkpoint, model_options, options.device, options.compute_type));
  TranslationModel trained = WithModel(config, std::move(tokenizer), std::move(model));
  trained.path = checkpoint.path();
  trained.step = checkpoint.step();
  trained.config_text = std::move(config_text);
  return trained;
}

std::vector<std::vector<Translation>> TranslateLines(const TranslationModel& trained,
                                                     std::span<const std::string> lines,
                                                     const TranslateOptions& options, Context& ctx,
                                                     LineNotes* notes) {
  BeamSearchOptions search = *trained.search;
  search.beam_size = options.beam_size;
  search.alpha = options.alpha.value_or(search.alpha);
  search.n_best = options.n_best;
  return TranslateLines(*trained.model, *trained.tokenizer, lines, search, ctx, notes);
}

}  // namespace dtrain
