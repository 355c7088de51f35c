// translation_model.h - opens a trained translation model: weights, tokenizer and configuration.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const TranslationModel trained, LoadTranslationModel("runs/base"));
//   Context ctx(runtime.device, {.compute_type = trained.compute_type});
//   const std::vector<std::string> lines = {"Ein Hund rennt."};
//   const auto translations = TranslateLines(trained, lines, {.beam_size = 4}, ctx);
//   const std::string& best = translations[0][0].text;  // of the first line
#ifndef DTRAIN_TASKS_TRANSLATION_TRANSLATION_MODEL_H_
#define DTRAIN_TASKS_TRANSLATION_TRANSLATION_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/base/status.h"
#include "dtrain/nn/context.h"
#include "dtrain/tasks/shared/load_model.h"

namespace dtrain {

class Seq2SeqTransformer;
class TranslationTokenizer;
struct BeamSearchOptions;

// A model ready to translate; its context must have the same compute type.
struct TranslationModel {
  std::string path;  // of the checkpoint, or of the published model's folder
  int64_t step = 0;
  std::string config_text;  // the run's configuration, an NmtConfig as text
  int64_t max_length = 0;   // pieces of the longest sentence that the run was trained on
  DType compute_type = DType::kFloat32;
  // Shared by copies.
  std::shared_ptr<const BeamSearchOptions> search;  // what the run evaluates with
  std::shared_ptr<const TranslationTokenizer> tokenizer;
  std::shared_ptr<Seq2SeqTransformer> model;
};

// `path` is a run directory, a folder of checkpoints, one checkpoint, or the folder of a published
// Marian model. Weights are the moving average where the run kept one. StorageError (exit code 7):
// nothing there, damaged, of another program, or without vocabulary or configuration; the message
// names the file, and of a published model the key that dtrain cannot do.
StatusOr<TranslationModel> LoadTranslationModel(const std::string& path,
                                                const LoadModelOptions& options = {});

// A translated line.
struct Translation {
  std::string text;
  float score = 0.0f;            // length-normalised
  float log_probability = 0.0f;  // of the pieces, end symbol included
};

// Lines that a model did not see as they are: indices, in their order; and all lines' lengths.
struct LineNotes {
  std::vector<int64_t> cut;      // had more pieces than the model has positions
  std::vector<int64_t> unknown;  // had characters that the vocabulary lacks
  std::vector<int64_t> pieces;   // the number of each line's pieces, not an index
};

// How a translation is searched.
struct TranslateOptions {
  int beam_size = 4;                          // 1 is greedy search
  std::optional<float> alpha = std::nullopt;  // length normalisation; the run's if not given
  int n_best = 1;                             // translations of each line, at most beam_size
};

// Translates lines of text on this rank alone. Returns the translations of each line, best first. A
// line of more pieces than the model has positions is cut; `notes`, unless null, receives which
// ones. The context must not be training, else CheckError.
std::vector<std::vector<Translation>> TranslateLines(const TranslationModel& trained,
                                                     std::span<const std::string> lines,
                                                     const TranslateOptions& options, Context& ctx,
                                                     LineNotes* notes = nullptr);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_TRANSLATION_MODEL_H_
