// options.cc - one assignment per field; the .proto files define the defaults.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/options.h"

#include <google/protobuf/repeated_field.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "dtrain/base/period.h"
#include "dtrain/config/config.h"
#include "dtrain/config/internal/shortest_decimal.h"
#include "dtrain/launch/internal/config_values.h"
#include "dtrain/launch/internal/optimizer_config.h"
#include "dtrain/launch/internal/shared_trainer_options.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/tasks/shared/internal/low_rank.h"

namespace dtrain {
namespace {

using internal::ActivationOf;
using internal::DTypeOf;
using internal::RecomputeOf;
using internal::WithFullNames;

// PREFIX.en, or PREFIX.en.gz or .zst where only that is there.
std::string WithLanguage(const std::string& prefix, const std::string& language) {
  const std::string plain = prefix + "." + language;
  std::error_code error;
  for (const char* const packed : {"", ".gz", ".zst"}) {
    if (std::filesystem::exists(plain + packed, error)) return plain + packed;
  }
  return plain;
}

ParallelInput OfLanguages(const std::string& path, PairFormat format,
                          const proto::DataConfig& config) {
  return {.source = path,
          .format = format,
          .source_language = config.source_language(),
          .target_language = config.target_language()};
}

ParallelInput OfPrefix(const std::string& prefix, const proto::DataConfig& config) {
  return {.source = WithLanguage(prefix, config.source_language()),
          .target = WithLanguage(prefix, config.target_language())};
}

// One file or two, in whatever format; nothing where none is set.
struct SetFiles {
  const std::string &source, &target, &tsv, &tmx, &jsonl, &prefix;
};
ParallelInput SetOf(const SetFiles& files, const proto::DataConfig& config) {
  if (!files.tsv.empty()) return {.source = files.tsv};
  if (!files.tmx.empty()) return OfLanguages(files.tmx, PairFormat::kTmx, config);
  if (!files.jsonl.empty()) return OfLanguages(files.jsonl, PairFormat::kJsonLines, config);
  if (!files.prefix.empty()) return OfPrefix(files.prefix, config);
  return {.source = files.source, .target = files.target};
}

// Training texts in all formats.
using Paths = google::protobuf::RepeatedPtrField<std::string>;
struct TextFiles {
  const Paths &source, &target, &tsv, &tmx, &jsonl, &prefix;
};
void AppendInputs(const TextFiles& files, const proto::DataConfig& config,
                  std::vector<ParallelInput>& inputs) {
  for (int i = 0; i < files.source.size(); ++i) {
    inputs.push_back({.source = files.source[i], .target = files.target[i]});
  }
  for (const std::string& tsv : files.tsv) inputs.push_back({.source = tsv});
  for (const std::string& tmx : files.tmx) {
    inputs.push_back(OfLanguages(tmx, PairFormat::kTmx, config));
  }
  for (const std::string& jsonl : files.jsonl) {
    inputs.push_back(OfLanguages(jsonl, PairFormat::kJsonLines, config));
  }
  for (const std::string& prefix : files.prefix) inputs.push_back(OfPrefix(prefix, config));
}

}  // namespace

Seq2SeqOptions ModelOptionsOf(const proto::ModelConfig& config) {
  return {.encoder_layers = config.encoder_layers(),
          .decoder_layers = config.decoder_layers(),
          .hidden_size = config.hidden_size(),
          .ffn_size = config.ffn_size(),
          .num_heads = config.num_heads(),
          .activation = ActivationOf(config.activation()),
          .pre_norm = config.norm() == proto::ModelConfig::pre,
          .layer_norm_epsilon = config.layer_norm_epsilon(),
          .tie_embeddings = config.tie_embeddings(),
          .tie_output = config.tie_output(),
          .output_bias = config.output_bias(),
          .learned_pad = config.learned_pad(),
          .dropout = config.dropout(),
          .attention_dropout = config.attention_dropout(),
          .activation_dropout = config.activation_dropout(),
          .max_positions = config.max_positions(),
          .low_rank = internal::LowRankOf(config.lora(), AttentionNames())};
}

void TakeVocabulary(const TranslationTokenizer& tokenizer, Seq2SeqOptions& model) {
  model.vocab_size = tokenizer.vocab_size(MarianSide::kTarget);
  model.source_vocab_size = tokenizer.vocab_size(MarianSide::kSource);
  model.pad = tokenizer.pad_id();
}

BeamSearchOptions SearchOptionsOf(const proto::TrainerConfig& config) {
  BeamSearchOptions options;
  options.beam_size = config.beam_size();
  options.alpha = config.beam_alpha();
  options.extra_length = config.beam_extra_length();
  options.rules = config.beam_rules() == proto::TrainerConfig::transformers
                      ? BeamRules::kTransformers
                      : BeamRules::kWu;
  options.early_stopping = config.beam_early_stopping();
  options.renormalizes = config.beam_renormalize();
  return options;
}

ContextOptions ContextOptionsOf(const proto::TrainerConfig& config, int rank) {
  return {.compute_type = DTypeOf(config.precision()),
          .recompute = RecomputeOf(config.recompute()),
          .recompute_every = config.recompute_every(),
          .seed = config.seed(),
          .rank = rank};
}

PrepareOptions PrepareOptionsOf(const proto::DataConfig& config, const std::string& output_dir) {
  PrepareOptions options;
  AppendInputs({config.train_source(), config.train_target(), config.train_tsv(),
                config.train_tmx(), config.train_jsonl(), config.train_prefix()},
               config, options.train);
  for (const proto::DataSource& source : config.sources()) {
    const size_t before = options.train.size();
    AppendInputs({source.source(), source.target(), source.tsv(), source.tmx(), source.jsonl(),
                  source.prefix()},
                 config, options.train);
    options.sources.push_back({.num_inputs = options.train.size() - before,
                               .weight = source.weight(),
                               .tag = source.tag()});
  }
  options.dev = SetOf({config.dev_source(), config.dev_target(), config.dev_tsv(), config.dev_tmx(),
                       config.dev_jsonl(), config.dev_prefix()},
                      config);
  options.test = SetOf({config.test_source(), config.test_target(), config.test_tsv(),
                        config.test_tmx(), config.test_jsonl(), config.test_prefix()},
                       config);
  options.hold_out_dev = config.hold_out_dev();
  options.hold_out_test = config.hold_out_test();
  options.output_dir = output_dir;
  options.model_path = config.vocabulary();
  options.bpe.vocab_size = config.vocab_size();
  options.bpe.character_coverage = config.character_coverage();
  options.bpe.byte_fallback = config.byte_fallback();
  options.bpe.split_digits = config.split_digits();
  const proto::CleaningConfig& cleaning = config.cleaning();
  options.cleaning.max_pieces = config.max_length();
  options.cleaning.max_words = cleaning.max_words();
  options.cleaning.max_word_bytes = cleaning.max_word_bytes();
  options.cleaning.max_length_ratio = cleaning.max_length_ratio();
  options.cleaning.min_letter_ratio = cleaning.min_letter_ratio();
  options.cleaning.drop_copies = cleaning.drop_copies();
  options.cleaning.drop_number_mismatch = cleaning.drop_number_mismatch();
  options.cleaning.drop_duplicates = cleaning.drop_duplicates();
  options.cleaning.drop_evaluation_overlap = cleaning.drop_evaluation_overlap();
  options.max_invalid_fraction = internal::ShortestDecimal(cleaning.max_invalid_fraction());
  return options;
}

TranslationTaskOptions TaskOptionsOf(const proto::NmtConfig& config, const std::string& data_dir,
                                     const Device& device) {
  const proto::TrainerConfig& trainer = config.trainer();
  TranslationTaskOptions options{.data_dir = data_dir,
                                 .model = ModelOptionsOf(config.model()),
                                 .batch = {.tokens_per_batch = trainer.tokens_per_batch(),
                                           .seed = trainer.seed(),
                                           .shuffle = config.data().shuffle(),
                                           .length_window = config.data().length_window()},
                                 .micro_batch_tokens = trainer.micro_batch_tokens(),
                                 .device = device,
                                 .compute_type = DTypeOf(trainer.precision()),
                                 .seed = trainer.seed(),
                                 .search = SearchOptionsOf(trainer),
                                 .eval_batch_tokens = trainer.eval_batch_tokens(),
                                 .eval_max_sentences = trainer.eval_max_sentences(),
                                 .eval_samples = trainer.eval_samples(),
                                 .config_text = PrintConfig(config, ConfigFormat::kFull)};
  options.model.label_smoothing = trainer.label_smoothing();
  return options;
}

TrainerOptions TrainerOptionsOf(const proto::NmtConfig& config, const std::string& run_dir,
                                int64_t updates_per_epoch) {
  const proto::TrainerConfig& trainer = config.trainer();
  TrainerOptions options = internal::SharedTrainerOptions(trainer, config.optimizer(), run_dir);
  options.updates_per_epoch = updates_per_epoch;
  options.learning_rate = internal::LearningRateOf(
      config.optimizer(), UpdatesOf(trainer.max_steps(), trainer.max_epochs(), updates_per_epoch),
      config.model().hidden_size());
  options.reducer.power_sgd.seed = trainer.seed();
  options.best_metric = proto::Metric_Name(trainer.best_metric());
  options.early_stop.metric = proto::Metric_Name(trainer.early_stop().metric());
  return options;
}

std::string AgreedSettings(const proto::NmtConfig& config) {
  proto::NmtConfig shared = config;
  shared.clear_run();
  shared.mutable_kernels()->clear_plan_dir();  // only one rank reads it
  return WithFullNames(PrintConfig(shared, ConfigFormat::kFull));
}

}  // namespace dtrain
