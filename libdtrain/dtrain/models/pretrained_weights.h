// pretrained_weights.h - starts a model from somebody else's weights, and says which it took.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const PretrainedReport report,
//                       LoadPretrainedWeights("models/bert-base-uncased", model.parameters()));
//   LogInfo(report.Describe());
//
// One rank loads; Trainer::Resume() gives all ranks what the root has.
#ifndef DTRAIN_MODELS_PRETRAINED_WEIGHTS_H_
#define DTRAIN_MODELS_PRETRAINED_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/formats/weight_file.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

struct PretrainedOptions {
  // Parameters the file need not have: they keep their first values. All others must be there
  // unless allow_missing, with which a layer of these that has another shape there is left out too.
  std::vector<std::string> may_be_new = {"classifier."};
  bool allow_missing = false;
};

// Which of the model's parameters and of the file's tensors met. All names sorted.
struct PretrainedReport {
  std::string path;                 // of the file
  std::vector<std::string> loaded;  // parameters
  int64_t loaded_values = 0;
  std::vector<std::string> initialised;  // parameters the file does not have
  std::vector<std::string> unused;       // tensors the model does not have
  // Tensors nobody wants: an optimizer's state, position_ids, step counters.
  int64_t ignored = 0;
  std::vector<std::string> notes;  // of vocabularies trimmed or padded, of heads left out

  // A few lines: how many were loaded, the names of the others.
  std::string Describe() const;
};

// The model's name for a tensor of a file, as Hugging Face's classes write it today: without
// "module.", "LayerNorm.weight" for "LayerNorm.gamma", "a.b.layer.0.c.weight" for TensorFlow's
// "a/b/layer_0/c/kernel", "classifier." for its "output_". "" for what is no weight.
std::string CanonicalWeightName(std::string_view name, WeightFormat format);

// Sets `parameters`, which are allocated, from WeightFile::Open(path). A name matches with or
// without "bert." in front. All number types are converted; TensorFlow's matrices are turned round.
// A vocabulary may have 128 rows more or fewer than the model's: what was padded to a round number
// is trimmed, what is missing keeps its first values.
// StorageError (exit code 7) and parameters in part as they were: what WeightFile::Open() refuses,
// a shape that differs (with both), a tensor twice, a parameter that is missing, data that fails
// its checksum, numbers that are NaN or infinite, as float32 too.
StatusOr<PretrainedReport> LoadPretrainedWeights(const std::string& path, ParameterSet& parameters,
                                                 const PretrainedOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_MODELS_PRETRAINED_WEIGHTS_H_
