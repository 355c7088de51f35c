// model_task.cc - checks and canonical texts that several tasks have.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/model_task.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/internal/abseil_text.h"

namespace dtrain {
namespace {

// Of all epochs together: five seconds (50 ns each; where windows are sorted, 450 ns).
constexpr int64_t kMaxCountedSamples = 100'000'000;
constexpr int64_t kSortedCost = 10;
// Where nothing is walked: what still has room for updates that are done.
constexpr int64_t kMaxSamples = int64_t{1} << 62;

}  // namespace

Status CheckComputeType(DType compute_type, const Device& device) {
  if (compute_type != DType::kFloat16 || device.type != DeviceType::kCpu) return OkStatus();
  return UsageError(
      "trainer.precision=fp16 needs a GPU; on CPUs use bf16, faster where the processor has it, or "
      "fp32");
}

std::optional<int64_t> CountUpdatesOf(const SampleLengths& lengths, const BatchOptions& options,
                                      const DataPosition& from, int64_t epochs) {
  const bool has_windows = options.length_window > 0;
  const bool is_walked = options.samples_per_batch == 0 || has_windows;
  const int64_t cost = has_windows ? kSortedCost : 1;
  const int64_t most = is_walked ? kMaxCountedSamples / cost : kMaxSamples;
  // Not their product, which may be larger than any number.
  if (epochs > most / std::max<int64_t>(lengths.size(), 1)) return std::nullopt;
  return CountUpdates(lengths, options, from, epochs);
}

EpochInfo EpochOf(int64_t samples, const BatchOptions& batch,
                  std::function<SampleLengths()> lengths) {
  return {.samples = samples,
          .order = SampleOrderOf(batch),
          .updates_until = [&batch, lengths = std::move(lengths)](const DataPosition& from,
                                                                  int64_t epochs) {
            return CountUpdatesOf(lengths(), batch, from, epochs);
          }};
}

std::string GraphKeyOf(const Sequences& sequences) {
  if (sequences.count() == 0) return "";
  return absl::StrJoin({sequences.count(), sequences.tokens(), int64_t{sequences.max_length()}},
                       ",");
}

std::string ModelTextOf(const BertOptions& options) {
  return absl::StrFormat("num_heads %d\nactivation %s\nlayer_norm_epsilon %g\n", options.num_heads,
                         ToAbsl(Name(options.activation)), options.layer_norm_epsilon);
}

Status CheckSameFiles(const Checkpoint& checkpoint, const std::vector<NamedFile>& ours,
                      std::initializer_list<const char*> names) {
  for (const NamedFile& file : ours) {
    const bool is_asked = std::find(names.begin(), names.end(), file.name) != names.end();
    if (!is_asked || !checkpoint.Has(file.name)) continue;
    DT_ASSIGN_OR_RETURN(const std::string theirs, checkpoint.ReadText(file.name));
    if (theirs == file.contents) continue;
    return StorageError(absl::StrFormat(
        "%s was trained with another %s than this run has; start a new run in another --run_dir",
        checkpoint.path(), file.name));
  }
  return OkStatus();
}

}  // namespace dtrain
