// pretrained_weights.cc - matches names, converts numbers, and reports everything without a match.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/pretrained_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "dtrain/base/crc.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/nn/frozen_parameters.h"

namespace dtrain {
namespace {

// The number of rows by which a vocabulary may differ from the model's.
constexpr int64_t kVocabularySlack = 128;

bool EndsWith(std::string_view text, std::string_view end) { return text.ends_with(end); }

void ReplaceEnd(std::string& text, std::string_view from, std::string_view to) {
  if (EndsWith(text, from)) text = text.substr(0, text.size() - from.size()).append(to);
}

// Converts "bert/encoder/layer_0/output/dense/kernel" to
// "bert.encoder.layer.0.output.dense.weight".
std::string FromTensorFlow(std::string_view variable) {
  // Adam's moments and other remains of training: "global_step", "x/Adam_1".
  for (const char* const slot : {"/adam_m", "/adam_v", "/Adam", "/Adam_1", "global_step"}) {
    if (EndsWith(variable, slot)) return "";
  }
  std::string name(variable);
  if (name.starts_with("cls/squad/")) name = absl::StrCat("qa_outputs/", name.substr(10));
  if (name == "cls/predictions/output_bias") name = "cls/predictions/bias";
  if (name.starts_with("output_")) name = absl::StrCat("classifier/", name);  // a fine-tuned model
  name = absl::StrReplaceAll(name, {{"/output_", "/"}});
  ReplaceEnd(name, "/weights", "/weight");
  ReplaceEnd(name, "/kernel", "/weight");
  ReplaceEnd(name, "_embeddings", "_embeddings/weight");
  // layer_0 -> layer.0
  if (const size_t layer = name.find("/layer_"); layer != std::string::npos) name[layer + 6] = '.';
  return absl::StrReplaceAll(name, {{"/", "."}});
}

bool IsVocabularySized(std::string_view name) {
  return std::ranges::any_of(EncoderFamilies(), [&](const EncoderFamily* family) {
    return name == family->masked_words.bias ||
           EndsWith(name, absl::StrCat("embeddings.", ToAbsl(family->form.words), ".weight"));
  });
}

// Returns "classifier" for "classifier.bias".
std::string LayerOf(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

// True if the tensor must be transposed: TensorFlow's dense layers are [in, out]. Its other tensors
// have our layout.
bool IsTurned(const WeightTensor& tensor, WeightFormat format) {
  return format == WeightFormat::kTensorFlow && EndsWith(tensor.tensor.name, "/kernel") &&
         tensor.tensor.shape.size() == 2;
}

template <typename T>
void ConvertFrom(std::span<const std::byte> data, std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<float>(value);
  }
}

// Converts the first values.size() numbers of `data`. Returns false for types that weights do not
// have.
bool Convert(DType dtype, std::span<const std::byte> data, std::span<float> values) {
  switch (dtype) {
    case DType::kFloat32:
      std::memcpy(values.data(), data.data(), values.size_bytes());
      return true;
    case DType::kFloat16:
      ConvertFrom<Float16>(data, values);
      return true;
    case DType::kBFloat16:
      ConvertFrom<BFloat16>(data, values);
      return true;
    case DType::kFloat64:
      ConvertFrom<double>(data, values);
      return true;
    default:
      return false;
  }
}

// True if no value is NaN or infinite. The loop has no branch, because there are hundreds of
// millions of values.
bool AreFinite(std::span<const float> values) {
  bool finite = true;
  for (const float value : values) finite &= std::abs(value) <= std::numeric_limits<float>::max();
  return finite;
}

// Transposes [rows, columns] to [columns, rows].
std::vector<float> Turned(const std::vector<float>& values, int64_t rows, int64_t columns) {
  std::vector<float> turned(values.size());
  ParallelFor(columns, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = begin; c < end; ++c) {
        turned[static_cast<size_t>(c * rows + r)] = values[static_cast<size_t>(r * columns + c)];
      }
    }
  });
  return turned;
}

class Loader {
 public:
  Loader(const WeightFile& file, ParameterSet& parameters, const PretrainedOptions& options)
      : file_(file),
        parameters_(parameters),
        options_(options),
        prefix_(absl::StrCat(ToAbsl(options.family->encoder), ".")) {
    report_.path = file.path();
  }

  // All shapes are checked before the first tensor is loaded, so that a model that does not match
  // is not changed.
  StatusOr<PretrainedReport> Compare() {
    DT_RETURN_IF_ERROR(MatchNames());
    if (options_.allow_missing) LeaveOutOtherHeads();
    DT_RETURN_IF_ERROR(CheckMissing());
    for (const auto& [index, match] : matches_) {
      DT_RETURN_IF_ERROR(CheckShape(*match.parameter, *match.tensor));
      report_.loaded.push_back(match.parameter->name());
      report_.loaded_values += match.parameter->shape().elements();
    }
    std::sort(report_.loaded.begin(), report_.loaded.end());
    std::sort(report_.unused.begin(), report_.unused.end());
    return report_;
  }

  StatusOr<PretrainedReport> Run() {
    DT_ASSIGN_OR_RETURN(PretrainedReport report, Compare());
    Stream stream(parameters_.weights().device());
    for (const auto& [index, match] : matches_) {
      DT_RETURN_IF_ERROR(Load(*match.parameter, *match.tensor, stream));
    }
    stream.Synchronize();
    parameters_.RefreshComputeWeights();
    return report;
  }

 private:
  struct Match {
    Parameter* parameter;
    const WeightTensor* tensor;
  };

  // The parameter with that canonical name, with or without the encoder's prefix.
  Parameter* Find(const std::string& name) {
    if (Parameter* const exact = parameters_.Find(name)) return exact;
    if (name.starts_with(prefix_)) return parameters_.Find(name.substr(prefix_.size()));
    return parameters_.Find(prefix_ + name);
  }

  Status MatchNames() {
    for (const WeightTensor& tensor : file_.tensors()) {
      const std::string name = CanonicalWeightName(tensor.tensor.name, file_.format());
      if (name.empty()) {
        ++report_.ignored;
        continue;
      }
      if (name.ends_with(".lora_A.weight") || name.ends_with(".lora_B.weight")) {
        return StorageError(absl::StrFormat(
            "%s: '%s' is a factor of an adapter that is not added to the weights; export the run "
            "by dtrain export-hf, and give that folder",
            file_.path(), tensor.tensor.name));
      }
      Parameter* const parameter = Find(name);
      if (parameter == nullptr) {
        report_.unused.push_back(tensor.tensor.name);
        continue;
      }
      const auto [match, is_new] = matches_.emplace(parameter->index(), Match{parameter, &tensor});
      if (is_new) continue;
      return StorageError(absl::StrFormat("%s: damaged: '%s' and '%s' are both %s", file_.path(),
                                          match->second.tensor->tensor.name, tensor.tensor.name,
                                          parameter->name()));
    }
    return OkStatus();
  }

  bool IsOfHead(const Parameter& parameter) const {
    return std::any_of(options_.may_be_new.begin(), options_.may_be_new.end(),
                       [&](const auto& prefix) { return parameter.name().starts_with(prefix); });
  }

  // Skips layers of the head that have another shape in the file, weight and bias together.
  void LeaveOutOtherHeads() {
    std::set<std::string> layers;
    for (const auto& [index, match] : matches_) {
      const Parameter& parameter = *match.parameter;
      if (!IsOfHead(parameter) || Fits(parameter, *match.tensor) != Fit::kNot) continue;
      const std::string layer = LayerOf(parameter.name());
      if (!layers.insert(layer).second) continue;
      const std::vector<int64_t> theirs = ShapeOf(*match.tensor);
      const std::vector<int64_t> ours = DimsOf(parameter);
      const bool counts = !theirs.empty() && !ours.empty() && theirs[0] != ours[0];
      report_.notes.push_back(
          counts ? absl::StrFormat("%s.*: %d %s in the file, %d here: it starts from new values",
                                   layer, theirs[0],
                                   layer.starts_with("classifier") ? "classes" : "outputs", ours[0])
                 : absl::StrFormat("%s.*: %s in the file, %s here: it starts from new values",
                                   layer, FormatShape(theirs), FormatShape(ours)));
    }
    std::erase_if(matches_, [&](const auto& entry) {
      const Match& match = entry.second;
      if (!layers.contains(LayerOf(match.parameter->name()))) return false;
      report_.unused.push_back(match.tensor->tensor.name);
      return true;
    });
  }

  Status CheckMissing() {
    std::vector<std::string> missing;
    bool lacks_frozen = false;
    for (Parameter* parameter : parameters_.all()) {
      if (FrozenOf(parameters_).IsFactor(*parameter)) continue;
      if (matches_.contains(parameter->index())) continue;
      const std::string& name = parameter->name();
      report_.initialised.push_back(name);
      // A frozen weight that starts from a random value would keep it.
      const bool may_be_new = options_.allow_missing || IsOfHead(*parameter);
      if (parameter->is_frozen() || !may_be_new) missing.push_back(name);
      lacks_frozen |= parameter->is_frozen();
    }
    std::sort(report_.initialised.begin(), report_.initialised.end());
    if (missing.empty()) return OkStatus();
    std::sort(missing.begin(), missing.end());
    return StorageError(absl::StrFormat(
        "%s: holds %d of the model's %d weights; missing %s; not used %s. Check that model and "
        "file are of one kind and size%s%s",
        file_.path(), matches_.size(), matches_.size() + report_.initialised.size(), Names(missing),
        Names(report_.unused), ShapeNote(file_.path()) + FamilyNote(),
        lacks_frozen ? "; model.lora does not train them, so they cannot start anew"
                     : ", or set allow_missing to start the missing ones anew"));
  }

  // A note for messages if the tensors are called as those of another family are.
  std::string FamilyNote() const {
    for (const EncoderFamily* family : EncoderFamilies()) {
      const std::string prefix = absl::StrCat(ToAbsl(family->encoder), ".");
      const bool is_theirs =
          prefix != prefix_ && std::ranges::any_of(report_.unused, [&](const std::string& name) {
            return name.starts_with(prefix);
          });
      if (!is_theirs) continue;
      return absl::StrFormat(
          " (the names are those of %s, and the model is a %s: see model.family)",
          ToAbsl(family->title), ToAbsl(options_.family->title));
    }
    return "";
  }

  // A note for messages if no file describes the weights' model.
  static std::string ShapeNote(const std::string& file) {
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    for (const char* name : {"config.json", "bert_config.json", "config.textproto"}) {
      std::error_code error;
      if (std::filesystem::exists(folder / name, error)) return "";
    }
    return " (there is no config.json next to the weights that describes the model's shape)";
  }

  static std::string Names(const std::vector<std::string>& names) {
    constexpr size_t kShown = 8;
    if (names.empty()) return "nothing";
    const auto end = names.begin() + static_cast<ptrdiff_t>(std::min(kShown, names.size()));
    std::string text = absl::StrJoin(names.begin(), end, ", ");
    if (names.size() > kShown) text += absl::StrFormat(" and %d more", names.size() - kShown);
    return text;
  }

  std::vector<int64_t> ShapeOf(const WeightTensor& tensor) const {
    std::vector<int64_t> shape = tensor.tensor.shape;
    if (IsTurned(tensor, file_.format())) std::swap(shape[0], shape[1]);
    return shape;
  }

  static std::vector<int64_t> DimsOf(const Parameter& parameter) {
    const std::span<const int64_t> dims = parameter.shape().dims();
    return {dims.begin(), dims.end()};
  }

  // Marian's final_logits_bias is a matrix of one row.
  static bool IsOneRowOf(const std::vector<int64_t>& theirs, const std::vector<int64_t>& ours) {
    return theirs.size() == ours.size() + 1 && theirs[0] == 1 &&
           std::equal(ours.begin(), ours.end(), theirs.begin() + 1);
  }

  enum class Fit { kWhole, kRows, kNot };

  // Returns kRows for a vocabulary of another size.
  Fit Fits(const Parameter& parameter, const WeightTensor& tensor) const {
    const std::vector<int64_t> theirs = ShapeOf(tensor);
    const std::vector<int64_t> ours = DimsOf(parameter);
    if (theirs == ours || IsOneRowOf(theirs, ours)) return Fit::kWhole;
    const bool vocabulary = IsVocabularySized(parameter.name()) && theirs.size() == ours.size() &&
                            theirs[0] > 0 &&
                            std::equal(theirs.begin() + 1, theirs.end(), ours.begin() + 1) &&
                            std::abs(theirs[0] - ours[0]) <= kVocabularySlack;
    return vocabulary ? Fit::kRows : Fit::kNot;
  }

  Status CheckShape(const Parameter& parameter, const WeightTensor& tensor) {
    const Fit fit = Fits(parameter, tensor);
    if (fit == Fit::kWhole) return OkStatus();
    const std::vector<int64_t> theirs = ShapeOf(tensor);
    const std::vector<int64_t> ours = DimsOf(parameter);
    if (fit == Fit::kNot) {
      return StorageError(absl::StrFormat(
          "%s: '%s' is %s, but the model's %s is %s; make the model's sizes those of the file%s",
          file_.path(), tensor.tensor.name, FormatShape(theirs), parameter.name(),
          FormatShape(ours),
          IsOfHead(parameter) ? absl::StrFormat(", or model.allow_missing=true to start with a new "
                                                "%s",
                                                LayerOf(parameter.name()))
                              : ""));
    }
    if (parameter.is_frozen() && theirs[0] < ours[0]) {
      return StorageError(
          absl::StrFormat("%s: '%s' has %d rows, and the vocabulary needs %d: model.lora does not "
                          "train the others; "
                          "use the vocabulary of the weights, or leave model.lora out",
                          file_.path(), tensor.tensor.name, theirs[0], ours[0]));
    }
    report_.notes.push_back(
        theirs[0] > ours[0]
            ? absl::StrFormat("%s: the last %d of the file's %d rows are left out",
                              parameter.name(), theirs[0] - ours[0], theirs[0])
            : absl::StrFormat(
                  "%s: the last %d of %d rows are not in the file and start from new values",
                  parameter.name(), ours[0] - theirs[0], ours[0]));
    return OkStatus();
  }

  Status Load(Parameter& parameter, const WeightTensor& tensor, Stream& stream) {
    const NamedTensor& from = tensor.tensor;
    if (tensor.masked_crc32c) {
      const std::string_view data(reinterpret_cast<const char*>(from.data.data()),
                                  from.data.size());
      if (MaskedCrc32c(data) != *tensor.masked_crc32c) {
        return StorageError(
            absl::StrFormat("%s: damaged: '%s' fails its CRC32C", file_.path(), from.name));
      }
    }
    // For a vocabulary of another size, only the rows that both have.
    Tensor to = parameter.master();
    if (Fits(parameter, tensor) == Fit::kRows) {
      to = to.Rows(0, std::min(from.shape[0], to.dim(0)));
    }
    std::vector<float> values(static_cast<size_t>(to.elements()));
    if (!Convert(from.dtype, from.data, values)) {
      return StorageError(absl::StrFormat("%s: '%s' holds %s, not weights", file_.path(), from.name,
                                          ToAbsl(Name(from.dtype))));
    }
    if (!AreFinite(values)) {
      return StorageError(absl::StrFormat(
          "%s: '%s' holds NaN or infinity; fetch the file again, or convert from fp32",
          file_.path(), from.name));
    }
    if (IsTurned(tensor, file_.format())) {
      values = Turned(values, from.shape[0], from.shape[1]);
    }
    Upload<float>(values, to, stream);
    return OkStatus();
  }

  const WeightFile& file_;
  ParameterSet& parameters_;
  const PretrainedOptions& options_;
  std::string prefix_;            // of the encoder's parameters
  std::map<int, Match> matches_;  // keyed by the parameter's index
  PretrainedReport report_;
};

}  // namespace

std::string CanonicalWeightName(std::string_view name, WeightFormat format) {
  std::string canonical =
      format == WeightFormat::kTensorFlow ? FromTensorFlow(name) : std::string(name);
  while (canonical.starts_with("module.")) canonical = canonical.substr(7);
  if (EndsWith(canonical, "position_ids")) return "";
  ReplaceEnd(canonical, ".gamma", ".weight");
  ReplaceEnd(canonical, ".beta", ".bias");
  // NVIDIA's DeepLearningExamples combine a dense layer with its activation.
  return absl::StrReplaceAll(canonical, {{".dense_act.", ".dense."}});
}

std::string PretrainedReport::Describe() const {
  std::string text = absl::StrFormat(
      "%s: %d weights loaded (%.1f million numbers); newly initialised: %s; unused: %s", path,
      loaded.size(), static_cast<double>(loaded_values) * 1e-6,
      initialised.empty() ? "none" : absl::StrJoin(initialised, ", "),
      unused.empty() ? "none" : absl::StrJoin(unused, ", "));
  if (ignored > 0) {
    text += absl::StrFormat("; ignored: %d tensors that are not weights", ignored);
  }
  for (const std::string& note : notes) text += "\n" + note;
  return text;
}

StatusOr<PretrainedReport> MatchPretrainedWeights(const std::string& path, ParameterSet& parameters,
                                                  const PretrainedOptions& options) {
  DT_ASSIGN_OR_RETURN(const WeightFile file, WeightFile::Open(path));
  parameters.Arrange();
  return Loader(file, parameters, options).Compare();
}

StatusOr<PretrainedReport> LoadPretrainedWeights(const std::string& path, ParameterSet& parameters,
                                                 const PretrainedOptions& options) {
  DT_ASSIGN_OR_RETURN(const WeightFile file, WeightFile::Open(path));
  return Loader(file, parameters, options).Run();
}

}  // namespace dtrain
