// pretrained_shape.h - shape and tokenizer of a pretrained BERT, from the files beside its weights.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_PRETRAINED_SHAPE_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_PRETRAINED_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/bert.pb.h"

namespace dtrain::proto {
class RunConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

// The settings of a BERT program that pretrained files may change, and those that say where the
// files are.
struct PretrainedSettings {
  proto::BertModelConfig& model;
  proto::Tokenization& tokenization;  // what the section `data` sets of it
  std::string& vocabulary;            // data.vocabulary
  int32_t max_length;                 // data.max_length
  const proto::RunConfig& run;
  std::vector<uint64_t> seeds;
};
Status LoadPretrainedShape(const PretrainedSettings& settings);
StatusOr<bool> TryLoadPretrainedShape(const PretrainedSettings& settings);

// Calls `take` with the settings of a program's configuration, and puts its changes into it.
template <typename Config, typename Take>
auto ChangePretrainedSettings(Config& config, const Take& take) {
  auto& data = *config.mutable_data();
  proto::Tokenization tokenization;
  if (data.has_lower_case()) tokenization.set_lower_case(data.lower_case());
  if (data.has_accents()) tokenization.set_accents(data.accents());
  if (data.has_tokenizer()) tokenization.set_tokenizer(data.tokenizer());
  std::string vocabulary = data.vocabulary();
  auto result = take(PretrainedSettings{
      .model = *config.mutable_model(),
      .tokenization = tokenization,
      .vocabulary = vocabulary,
      .max_length = data.max_length(),
      .run = config.run(),
      .seeds = {config.trainer().seeds().begin(), config.trainer().seeds().end()}});
  if (tokenization.has_lower_case()) data.set_lower_case(tokenization.lower_case());
  if (tokenization.has_accents()) data.set_accents(tokenization.accents());
  if (tokenization.has_tokenizer()) data.set_tokenizer(tokenization.tokenizer());
  if (vocabulary != data.vocabulary()) data.set_vocabulary(vocabulary);
  return result;
}

// Gives `config` the shape of model.pretrained's config.json or bert_config.json. Where they are
// not set, it also gets the vocab.txt beside them and what tokenizer_config.json says of capitals
// and accents. Without model.pretrained, only what is not set gets the defaults of model.family.
// A checkpoint of a program of BERT has no such JSON: shape, capitals, accents and tokenizer are
// then those of its config.textproto. Where the weights are gone and the run resumes from a
// checkpoint (its own, or run.resume's), all of that is the checkpoint's, its vocabulary too.
// StorageError: no weights, or files that are there and cannot be used. UsageError: a run
// directory, no vocabulary, or texts longer than the model's positions.
template <typename Config>
Status LoadPretrainedShape(Config& config) {
  return ChangePretrainedSettings(
      config, [](const PretrainedSettings& settings) { return LoadPretrainedShape(settings); });
}

// The same as far as the files are there, and where the vocabulary is not, model.vocab_size of
// config.json. Returns whether a file gave the shape.
template <typename Config>
StatusOr<bool> TryLoadPretrainedShape(Config& config) {
  return ChangePretrainedSettings(
      config, [](const PretrainedSettings& settings) { return TryLoadPretrainedShape(settings); });
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_PRETRAINED_SHAPE_H_
