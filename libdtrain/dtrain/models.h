// models.h - opens trained models, to translate, classify and answer from your own program.
// SPDX-License-Identifier: Apache-2.0
//
//   #include "dtrain/models.h"
//
//   auto model = dtrain::LoadTranslationModel("runs/demo", {});
//   if (!model.ok()) return dtrain::ReportAndGetExitCode(model.status());
#ifndef DTRAIN_MODELS_H_
#define DTRAIN_MODELS_H_

#include "dtrain/launch/run_on_ranks.h"                                // IWYU pragma: export
#include "dtrain/tasks/classification/classification_model.h"          // IWYU pragma: export
#include "dtrain/tasks/question_answering/question_answering_model.h"  // IWYU pragma: export
#include "dtrain/tasks/translation/translation_model.h"                // IWYU pragma: export
#include "dtrain/tasks/translation/translator.h"                       // IWYU pragma: export

#endif  // DTRAIN_MODELS_H_
