// translation_flags.cc - binds, checks and converts the flags of commands that translate.
// SPDX-License-Identifier: Apache-2.0
#include "tools/dtrain/translation_flags.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/tasks/translation/translator.h"

namespace dtrain {

void TranslationFlags::AddTo(FlagSet& flags) {
  flags.Add(
      "beam_size",
      "hypotheses searched side by side; 1 is greedy; default: 4, or num_beams of a published "
      "model, also where a run began with it",
      &beam_size);
  flags.Add("alpha",
            "length normalisation: log p / ((5 + length) / 6)^alpha; default: trainer.beam_alpha "
            "of the run",
            &alpha);
  flags.Add("extra_length", "pieces a translation may have beyond its source's", &extra_length);
  flags.Add("batch_tokens", "source pieces translated together; changes speed and memory only",
            &batch_tokens);
  flags.Add("precision", "fp32, or bf16, which is faster where the processor has it", &precision);
  flags.Add("threads", "compute threads; 0 takes all cores", &threads);
  flags.Add("metric", "of a run's checkpoints the best by this metric; default: as the run",
            &metric);
}

Status CheckRange(std::string_view flag, int64_t value, int64_t minimum, int64_t maximum) {
  if (value >= minimum && value <= maximum) return OkStatus();
  return UsageError(
      absl::StrFormat("--%s is %d; it must be from %d to %d", flag, value, minimum, maximum));
}

Status TranslationFlags::Check() const {
  if (beam_size) DT_RETURN_IF_ERROR(CheckRange("beam_size", *beam_size, 1, 1000));
  DT_RETURN_IF_ERROR(CheckRange("extra_length", extra_length, 0, 100'000));
  DT_RETURN_IF_ERROR(CheckRange("batch_tokens", batch_tokens, 1, 1'000'000));
  DT_RETURN_IF_ERROR(CheckRange("threads", threads, 0, 4096));
  if (alpha && (*alpha < 0 || *alpha > 10)) {
    return UsageError(absl::StrFormat("--alpha is %g; it must be from 0 to 10", *alpha));
  }
  if (precision == "fp32" || precision == "bf16") return OkStatus();
  return UsageError(absl::StrFormat("--precision is fp32 or bf16, not \"%s\"", precision));
}

Status TranslationFlags::CheckNoneOfModel() const {
  const TranslationFlags unset;
  const std::pair<const char*, bool> flags[] = {
      {"beam_size", beam_size != unset.beam_size},
      {"alpha", alpha != unset.alpha},
      {"extra_length", extra_length != unset.extra_length},
      {"batch_tokens", batch_tokens != unset.batch_tokens},
      {"precision", precision != unset.precision},
      {"metric", metric != unset.metric}};
  for (const auto& [name, is_set] : flags) {
    if (!is_set) continue;
    return UsageError(
        absl::StrFormat("--%s is for a model; --hypothesis is scored as it is", name));
  }
  return OkStatus();
}

LoadModelOptions TranslationFlags::LoadOptions(const Device& device) const {
  return {.metric = metric, .device = device, .compute_type = compute_type()};
}

BeamSearchOptions TranslationFlags::SearchOptions(const TranslationModel& trained) const {
  BeamSearchOptions options = *trained.search;
  // A run's own number is that of its evaluations, which need not be good.
  constexpr int kDefaultBeams = 4;
  if (options.rules != BeamRules::kTransformers) options.beam_size = kDefaultBeams;
  if (beam_size) options.beam_size = static_cast<int>(*beam_size);
  if (alpha) options.alpha = static_cast<float>(*alpha);
  options.extra_length = static_cast<int32_t>(extra_length);
  options.batch_tokens = batch_tokens;
  return options;
}

}  // namespace dtrain
