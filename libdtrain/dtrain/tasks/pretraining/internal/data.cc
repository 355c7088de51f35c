// data.cc - the root prepares shards and tells the others where they are.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/internal/data.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/log.h"
#include "dtrain/comm/gather.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/config/internal/shortest_decimal.h"
#include "dtrain/pretrain.pb.h"
#include "dtrain/tasks/pretraining/prepare.h"
#include "dtrain/tasks/shared/internal/tokenization.h"

namespace dtrain::internal {
namespace {

StatusOr<DocumentsReport> PrepareAndReport(const DocumentsInput& input,
                                           const TextTokenizer& tokenizer) {
  DT_ASSIGN_OR_RETURN(DocumentsReport report, PrepareDocuments(input, tokenizer));
  LogInfo(report.Describe());
  return report;
}

StatusOr<PretrainData> PrepareOnRoot(const proto::PretrainDataConfig& data,
                                     const std::string& cache_dir, bool with_train) {
  WordPieceOptions options = TokenizationOf(data);
  options.match_special_tokens = false;
  DT_ASSIGN_OR_RETURN(const TextTokenizer tokenizer,
                      TextTokenizer::Load(data.vocabulary(), options));
  WarnOfCapitals(tokenizer, data.vocabulary());
  if (tokenizer.mask_id() < 0) {
    return UsageError("data.vocabulary: " + data.vocabulary() +
                      " has no [MASK]; give a vocabulary that BERT was pre-trained with");
  }
  const bool has_dev = data.dev_size() > 0;
  DocumentsInput input{.name = "train",
                       .paths = {data.train().begin(), data.train().end()},
                       .cache_dir = cache_dir,
                       .max_length = data.max_length(),
                       .split_sentences = data.split_sentences(),
                       .held_out = has_dev ? 0.0 : ShortestDecimal(data.hold_out()),
                       // A random next text is of another document.
                       .min_held_out = data.next_sentence() ? 2 : 1};
  PretrainData shards;
  if (with_train || input.held_out > 0.0) {
    DT_ASSIGN_OR_RETURN(const DocumentsReport report, PrepareAndReport(input, tokenizer));
    shards = {.train = report.shard_path, .dev = report.held_out_path};
  }
  if (has_dev) {
    input.name = "dev";
    input.paths = {data.dev().begin(), data.dev().end()};
    DT_ASSIGN_OR_RETURN(const DocumentsReport report, PrepareAndReport(input, tokenizer));
    shards.dev = report.shard_path;
  }
  return shards;
}

}  // namespace

PretrainingExampleOptions ExamplesOf(const proto::PretrainDataConfig& data, uint64_t seed) {
  return {.max_length = data.max_length(),
          .short_share = ShortestDecimal(data.short_share()),
          .next_sentence = data.next_sentence(),
          .masking = {.share = ShortestDecimal(data.masked_share()),
                      .max_predictions = data.max_predictions(),
                      .whole_words = data.whole_words()},
          .seed = seed};
}

std::string MaskingWarning(const proto::PretrainDataConfig& data) {
  const double share = ShortestDecimal(data.masked_share());
  const double wanted = share * data.max_length();
  if (data.max_predictions() >= 0.9 * wanted) return "";
  return absl::StrFormat(
      "data.max_predictions (%d) hides fewer tokens than data.masked_share (%g) of data.max_length "
      "(%d); set data.max_predictions=%d for all of them",
      data.max_predictions(), share, data.max_length(), std::llround(std::ceil(wanted)));
}

StatusOr<PretrainData> PreparePretrainData(const proto::PretrainDataConfig& data,
                                           const std::string& cache_dir, bool with_train,
                                           Runtime& runtime) {
  StatusOr<PretrainData> shards = PretrainData();
  if (runtime.comm.is_root()) shards = PrepareOnRoot(data, cache_dir, with_train);
  DT_RETURN_IF_ERROR(ShareRootStatus(shards.status(), "prepare the data", runtime.comm));
  const std::string text =
      BroadcastString(runtime.comm, absl::StrCat(shards->train, "\n", shards->dev));
  const std::vector<std::string> paths = absl::StrSplit(text, '\n');
  return PretrainData{.train = paths.at(0), .dev = paths.at(1)};
}

}  // namespace dtrain::internal
