// model_task.cc - checks and canonical texts that several tasks have.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/model_task.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace dtrain {

absl::Status CheckComputeType(DType compute_type, const Device& device) {
  if (compute_type != DType::kFloat16 || device.type != DeviceType::kCpu) return absl::OkStatus();
  return UsageError(
      "trainer.precision=fp16 needs a GPU; on CPUs use bf16 (where the processor has it) or fp32");
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

absl::Status CheckSameFiles(const Checkpoint& checkpoint, const std::vector<NamedFile>& ours,
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
  return absl::OkStatus();
}

}  // namespace dtrain
