// model_task.cc - checks and canonical texts that several tasks have.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/model_task.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/tasks/shared/internal/vocabulary_file.h"
#include "dtrain/tokenizers/internal/merges_files.h"

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

std::string LowRankTextOf(const LowRankOptions& options) {
  return options.rank > 0 ? absl::StrFormat("lora.alpha %g\n", options.alpha) : "";
}

std::string ModelTextOf(const BertOptions& options) {
  std::string text =
      absl::StrFormat("num_heads %d\nactivation %s\nlayer_norm_epsilon %g\n", options.num_heads,
                      ToAbsl(Name(options.activation)), options.layer_norm_epsilon);
  // Not the thetas: a run may go on with others, for longer texts.
  if (options.family->form.has_rotary_positions) {
    absl::StrAppendFormat(&text, "local_attention %d\nwhole_every %d\n", options.local_attention,
                          options.whole_every);
  }
  return text + LowRankTextOf(options.low_rank);
}

Identity IdentityOf(std::string training_data, std::string evaluation, std::string model) {
  const std::string shared = training_data + evaluation;
  return {.training_data = std::move(training_data),
          .evaluation = std::move(evaluation),
          .model = std::move(model),
          .shared_data = shared};
}

CheckpointContents ContentsOf(std::vector<NamedFile> files, std::vector<std::string> fixed) {
  fixed.insert(fixed.end(), {internal::kWordPieceFile, internal::kTokenizerFile,
                             internal::kPiecesFile, internal::kMergesFile});
  std::vector<NamedFile> ours;
  for (const NamedFile& file : files) {
    if (std::find(fixed.begin(), fixed.end(), file.name) != fixed.end()) ours.push_back(file);
  }
  const auto check = [ours = std::move(ours)](const Checkpoint& checkpoint) -> Status {
    for (const NamedFile& file : ours) {
      if (!checkpoint.Has(file.name)) continue;
      DT_ASSIGN_OR_RETURN(const std::string theirs, checkpoint.ReadText(file.name));
      if (theirs == file.contents) continue;
      return StorageError(absl::StrFormat(
          "%s was trained with another %s than this run has; start a new run in another --run_dir",
          checkpoint.path(), file.name));
    }
    return OkStatus();
  };
  return {.files = std::move(files), .check = check};
}

Status FitBert(const TextTokenizer& tokenizer, int32_t max_length, BertOptions& model) {
  if (model.vocab_size == 0) model.vocab_size = tokenizer.vocab_size();
  if (model.vocab_size < tokenizer.vocab_size()) {
    return UsageError(absl::StrFormat(
        "the vocabulary has %d pieces, but the model knows %d; give the vocabulary that belongs to "
        "the model",
        tokenizer.vocab_size(), model.vocab_size));
  }
  if (max_length <= model.max_positions) return OkStatus();
  return UsageError(absl::StrFormat("data.max_length (%d) exceeds the model's %d positions",
                                    max_length, model.max_positions));
}

}  // namespace dtrain
