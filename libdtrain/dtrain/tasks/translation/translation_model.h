// translation_model.h - opens a trained translation model: weights, tokenizer and configuration.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const TranslationModel trained, LoadTranslationModel("runs/base"));
//   Context ctx(runtime.device, {.compute_type = trained.compute_type});
//   const auto translations = TranslateLines(*trained.model, trained.tokenizer, lines,
//       SearchOptionsFor(trained.tokenizer, /*beam_size=*/4, trained.beam_alpha), ctx);
#ifndef DTRAIN_TASKS_TRANSLATION_TRANSLATION_MODEL_H_
#define DTRAIN_TASKS_TRANSLATION_TRANSLATION_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "dtrain/base/dtype.h"
#include "dtrain/base/status.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/tasks/shared/load_model.h"
#include "dtrain/tokenizers/bpe.h"

namespace dtrain {

// A model ready to translate; its context must have the same compute type.
struct TranslationModel {
  std::string path;  // of the checkpoint
  int64_t step = 0;
  std::string config_text;  // the run's configuration, an NmtConfig as text
  float beam_alpha = 0.6F;  // length normalisation the run evaluates with
  DType compute_type = DType::kFloat32;
  BpeModel tokenizer;
  std::unique_ptr<Seq2SeqTransformer> model;
};

// `path` is a run directory, a folder of checkpoints or one checkpoint. Weights are the moving
// average where the run kept one. StorageError (exit code 7): nothing there, damaged, of another
// program, or without vocabulary or configuration; the message names the file.
StatusOr<TranslationModel> LoadTranslationModel(const std::string& path,
                                                const LoadModelOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_TRANSLATION_MODEL_H_
