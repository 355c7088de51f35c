// translation_flags.h - the flags of commands that translate: model, search, precision, threads.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_DTRAIN_TRANSLATION_FLAGS_H_
#define DTRAIN_TOOLS_DTRAIN_TRANSLATION_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "dtrain/base/dtype.h"
#include "dtrain/base/status.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/models/beam_search.h"
#include "dtrain/tasks/translation/translation_model.h"

namespace dtrain {

struct TranslationFlags {
  std::optional<int64_t> beam_size;
  std::optional<double> alpha;
  int64_t extra_length = 50;
  int64_t batch_tokens = 4096;
  std::string precision = "fp32";
  int64_t threads = 0;
  std::string metric;

  // Binds the flags; this object must outlive the set's Parse() and Help().
  void AddTo(FlagSet& flags);
  // UsageError where a value is out of range.
  Status Check() const;
  // UsageError where a flag is set that only a model reads.
  Status CheckNoneOfModel() const;

  DType compute_type() const { return precision == "bf16" ? DType::kBFloat16 : DType::kFloat32; }
  LoadModelOptions LoadOptions(const Device& device) const;
  BeamSearchOptions SearchOptions(const TranslationModel& trained) const;
};

// UsageError unless minimum <= value <= maximum.
Status CheckRange(std::string_view flag, int64_t value, int64_t minimum, int64_t maximum);

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_DTRAIN_TRANSLATION_FLAGS_H_
