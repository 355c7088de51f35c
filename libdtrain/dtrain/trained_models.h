// trained_models.h - opens trained models, to translate, classify and answer from your own program.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const TranslationModel trained, LoadTranslationModel("runs/demo"));
//   Context ctx(runtime.device, {.compute_type = trained.compute_type});
//   const std::vector<std::string> lines = {"Ein Hund rennt."};
//   std::printf("%s\n", TranslateLines(trained, lines, {}, ctx)[0][0].text.c_str());
#ifndef DTRAIN_TRAINED_MODELS_H_
#define DTRAIN_TRAINED_MODELS_H_

#include "dtrain/launch/run_on_ranks.h"                                // IWYU pragma: export
#include "dtrain/nn/context.h"                                         // IWYU pragma: export
#include "dtrain/tasks/classification/classification_model.h"          // IWYU pragma: export
#include "dtrain/tasks/question_answering/question_answering_model.h"  // IWYU pragma: export
#include "dtrain/tasks/translation/translation_model.h"                // IWYU pragma: export

#endif  // DTRAIN_TRAINED_MODELS_H_
