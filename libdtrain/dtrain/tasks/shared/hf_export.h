// hf_export.h - writes a trained model as a folder that Hugging Face's transformers loads.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_HF_EXPORT_H_
#define DTRAIN_TASKS_SHARED_HF_EXPORT_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/tasks/translation/translation_model.h"

namespace dtrain {

struct HfExportOptions {
  bool overwrite = false;  // replace files of an earlier export, of whatever kind
};

// Writes config.json, generation_config.json, model.safetensors (float32), vocab.json, source.spm,
// target.spm, tokenizer.json and tokenizer_config.json into `directory`; config.json comes last, so
// that a folder with one is whole. Returns the class: "MarianMTModel" for post-norm models,
// "PegasusForConditionalGeneration" for pre-norm ones. UsageError: the folder is not empty, or the
// model fits neither class; StorageError: the disk.
StatusOr<std::string> ExportToHuggingFace(const TranslationModel& trained,
                                          const std::string& directory,
                                          const HfExportOptions& options = {});

// Writes config.json, model.safetensors (float32), vocab.txt, tokenizer_config.json and
// special_tokens_map.json of a run of bert_classify, for BertForSequenceClassification and
// BertTokenizer. Returns the class. StorageError: the checkpoint is none of a classifier, or
// damaged; UsageError: the folder is not empty.
StatusOr<std::string> ExportClassifierToHuggingFace(const std::string& checkpoint_path,
                                                    const std::string& directory,
                                                    const HfExportOptions& options = {});

// The same of a run of bert_squad, for BertForQuestionAnswering.
StatusOr<std::string> ExportSquadToHuggingFace(const std::string& checkpoint_path,
                                               const std::string& directory,
                                               const HfExportOptions& options = {});

// The same of a run of bert_pretrain, for BertForPreTraining, or BertForMaskedLM where it did not
// learn whether one text follows another. The projection to the vocabulary is the table of words,
// to which both classes tie it, and is not written again.
StatusOr<std::string> ExportPretrainingToHuggingFace(const std::string& checkpoint_path,
                                                     const std::string& directory,
                                                     const HfExportOptions& options = {});

struct HfExportResult {
  std::string class_name;
  std::string checkpoint;  // that was exported
};
// Of whichever kind the run, folder of checkpoints or checkpoint at `path` is; of a run's
// checkpoints the best by `metric`, where that is not empty.
StatusOr<HfExportResult> ExportRunToHuggingFace(const std::string& path, const std::string& metric,
                                                const std::string& directory,
                                                const HfExportOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_HF_EXPORT_H_
