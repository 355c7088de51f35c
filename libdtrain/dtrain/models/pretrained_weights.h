// pretrained_weights.h - initialises a model from pretrained weights, and reports which were used.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const PretrainedReport report,
//                       LoadPretrainedWeights("models/bert-base-uncased", model.parameters()));
//   LogInfo(report.Describe());
//
// One rank loads; Trainer::Resume() copies the root's weights to all ranks.
#ifndef DTRAIN_MODELS_PRETRAINED_WEIGHTS_H_
#define DTRAIN_MODELS_PRETRAINED_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/formats/weight_file.h"
#include "dtrain/models/encoder_family.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

struct PretrainedOptions {
  // Whose weights they are. A name matches with or without the prefix of its encoder.
  const EncoderFamily* family = &BertFamily();
  // Prefixes of parameters that the file may lack; they keep their initial values. All other
  // parameters must be in the file, unless allow_missing is set. With allow_missing, a layer with
  // one of these prefixes is also skipped if its shape differs.
  std::vector<std::string> may_be_new = {"classifier."};
  bool allow_missing = false;
};

// Reports which parameters of the model and tensors of the file matched. All names are sorted.
struct PretrainedReport {
  std::string path;                 // path of the file
  std::vector<std::string> loaded;  // names of loaded parameters
  int64_t loaded_values = 0;
  std::vector<std::string> initialised;  // parameters that the file lacks
  std::vector<std::string> unused;       // tensors that the model lacks
  // Number of tensors that are never used: optimizer state, position_ids, step counters.
  int64_t ignored = 0;
  std::vector<std::string> notes;  // about vocabularies that were trimmed or padded, and heads that
                                   // were skipped

  // A few lines: how many parameters were loaded, and the names of the others.
  std::string Describe() const;
};

// The name that Hugging Face's classes use today for a tensor of a file: without "module.",
// "LayerNorm.weight" for "LayerNorm.gamma", "a.b.layer.0.c.weight" for TensorFlow's
// "a/b/layer_0/c/kernel", "classifier." for TensorFlow's "output_". Returns "" if the tensor is not
// a weight.
std::string CanonicalWeightName(std::string_view name, WeightFormat format);

// Reports what LoadPretrainedWeights() would load, from the names and shapes alone, with the same
// errors. `parameters` need no memory.
StatusOr<PretrainedReport> MatchPretrainedWeights(const std::string& path, ParameterSet& parameters,
                                                  const PretrainedOptions& options = {});

// Loads `parameters`, which must be allocated, from WeightFile::Open(path). Number types are
// converted, and TensorFlow's matrices are transposed. A vocabulary may have up to 128 rows more or
// fewer than the model's: surplus rows (padding to a round number) are dropped, and missing rows
// keep their initial values. Returns StorageError (exit code 7) for the errors of
// WeightFile::Open(), a different shape (the message shows both), a duplicate tensor, a missing
// parameter, or a wrong checksum. NaN and infinite numbers are errors too, also after conversion to
// float32. After an error some parameters may already be loaded.
StatusOr<PretrainedReport> LoadPretrainedWeights(const std::string& path, ParameterSet& parameters,
                                                 const PretrainedOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_MODELS_PRETRAINED_WEIGHTS_H_
