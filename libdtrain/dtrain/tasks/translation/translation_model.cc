// translation_model.cc - from a checkpoint's files to a model that translates.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/translation_model.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/config/config.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/tasks/shared/internal/trained_run.h"
#include "dtrain/tasks/translation/options.h"
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

}  // namespace

StatusOr<TranslationModel> LoadTranslationModel(const std::string& path,
                                                const LoadModelOptions& options) {
  DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                      internal::OpenBestCheckpoint(path, options.metric));
  DT_ASSIGN_OR_RETURN(const proto::NmtConfig config, ReadConfig(checkpoint));
  DT_ASSIGN_OR_RETURN(std::string config_text, checkpoint.ReadText("config.textproto"));
  StatusOr<BpeModel> tokenizer = BpeModel::Load(checkpoint.path() + "/vocab.spm");
  if (!tokenizer.ok()) return AsStorageError(tokenizer.status());
  Seq2SeqOptions model_options = ModelOptionsOf(config.model());
  model_options.vocab_size = tokenizer->vocab_size();
  model_options.label_smoothing = config.trainer().label_smoothing();
  DT_ASSIGN_OR_RETURN(std::unique_ptr<Seq2SeqTransformer> model,
                      internal::LoadModel<Seq2SeqTransformer>(
                          checkpoint, model_options, options.device, options.compute_type));
  return TranslationModel{.path = checkpoint.path(),
                          .step = checkpoint.step(),
                          .config_text = std::move(config_text),
                          .beam_alpha = config.trainer().beam_alpha(),
                          .max_length = config.data().max_length(),
                          .compute_type = model->parameters().compute_type(),
                          .tokenizer = *std::move(tokenizer),
                          .model = std::move(model)};
}

std::vector<std::vector<Translation>> TranslateLines(const TranslationModel& trained,
                                                     std::span<const std::string> lines,
                                                     const TranslateOptions& options, Context& ctx,
                                                     LineNotes* notes) {
  BeamSearchOptions search = SearchOptionsFor(trained.tokenizer, options.beam_size,
                                              options.alpha.value_or(trained.beam_alpha));
  search.n_best = options.n_best;
  return TranslateLines(*trained.model, trained.tokenizer, lines, search, ctx, notes);
}

}  // namespace dtrain
