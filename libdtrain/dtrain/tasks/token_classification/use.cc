// use.cc - measures a trained tagger, or writes its tags.
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/distributed/agreement.h"
#include "dtrain/launch/internal/config_values.h"
#include "dtrain/launch/internal/print_on_root.h"
#include "dtrain/nn/context.h"
#include "dtrain/runs/output_folder.h"
#include "dtrain/tasks/shared/internal/metrics_text.h"
#include "dtrain/tasks/shared/internal/tokenization.h"
#include "dtrain/tasks/shared/internal/trained_run.h"
#include "dtrain/tasks/token_classification/config.h"
#include "dtrain/tasks/token_classification/internal/trained_tagger.h"
#include "dtrain/tasks/token_classification/predictions.h"
#include "dtrain/tasks/token_classification/program.h"
#include "dtrain/tasks/token_classification/task.h"

namespace dtrain {
namespace {

using internal::PrintOnRoot;
using internal::TrainedTagger;

// A trained model in memory and what it computes with.
struct LoadedTagger {
  const TrainedTagger& trained;
  TextTokenizer tokenizer;
  std::unique_ptr<BertTokenClassifier> model;
  Context context;
};

StatusOr<LoadedTagger> Load(const TrainedTagger& trained, const Runtime& runtime) {
  DT_RETURN_IF_ERROR(internal::CheckSameCheckpoint(trained.checkpoint, runtime.comm));
  DT_RETURN_IF_ERROR(PrintOnRoot(runtime, absl::StrCat("model ", trained.checkpoint.path(), "\n")));
  const auto& data = trained.config.data();
  StatusOr<TextTokenizer> tokenizer =
      TextTokenizer::Load(data.vocabulary(), internal::TokenizationOf(data));
  if (!tokenizer.ok()) return internal::AsStorageError(tokenizer.status());
  const DType type = internal::DTypeOf(trained.config.trainer().precision());
  DT_ASSIGN_OR_RETURN(std::unique_ptr<BertTokenClassifier> model,
                      internal::LoadTagger(trained, runtime.device, type));
  const DType compute_type = model->parameters().compute_type();
  return LoadedTagger{trained, *std::move(tokenizer), std::move(model),
                      Context(runtime.device, {.compute_type = compute_type})};
}

struct TaggedSet {
  ConllSet set;
  TagPredictions predictions;
};

// What the model says of the words in `paths`.
template <typename Paths>
StatusOr<TaggedSet> Tag(LoadedTagger& loaded, const Paths& paths, bool has_tags,
                        InvalidText invalid, Runtime& runtime) {
  const proto::TokenClassificationConfig& config = loaded.trained.config;
  ConllOptions options = ConllOptionsOf(config.data());
  options.has_tags = has_tags;
  options.invalid = invalid;
  DT_ASSIGN_OR_RETURN(ConllSet set, ReadConll({paths.begin(), paths.end()}, options));
  // Each rank reads them for itself, and the predictions of all are added.
  DT_RETURN_IF_ERROR(CheckRanksAgree(
      {{"sentences", absl::StrFormat("words %d\ncrc32c %08x\n", set.words, set.crc)}},
      runtime.comm));
  DT_ASSIGN_OR_RETURN(
      const TaggedRows rows,
      TaggedRows::Create(set, loaded.trained.tags, loaded.tokenizer, config.data().max_length()));
  TagPredictions predictions = PredictTags(
      *loaded.model, rows, config.trainer().eval_batch_tokens(), runtime.comm, loaded.context);
  return TaggedSet{std::move(set), std::move(predictions)};
}

// "dev (40 sentences)  loss 0.1234  f1 0.9100".
template <typename Paths>
Status Measure(const char* name, LoadedTagger& loaded, const Paths& paths, Runtime& runtime) {
  if (paths.empty()) return OkStatus();
  DT_ASSIGN_OR_RETURN(const TaggedSet tagged,
                      Tag(loaded, paths, /*has_tags=*/true, InvalidText::kFail, runtime));
  const EvaluationResult result = EvaluateTags(tagged.set, tagged.predictions, loaded.trained.tags);
  std::string text = absl::StrFormat("%s (%d sentences)", name, tagged.set.sentences.size());
  text += internal::MetricsText(result);
  return PrintOnRoot(runtime, text + "\n");
}

// Refuses an output that takes the place of an input, and makes its folder: before the work, so
// that nothing is lost.
Status PrepareOutput(const std::string& output, const proto::TokenClassificationDataConfig& data) {
  std::vector<std::string> inputs = {data.vocabulary()};
  for (const auto* const list : {&data.train(), &data.dev(), &data.test()}) {
    inputs.insert(inputs.end(), list->begin(), list->end());
  }
  DT_RETURN_IF_ERROR(CheckIsNotRead("predict.output", output, inputs));
  DT_RETURN_IF_ERROR(MakeDirectories(ParentOf(output)));
  return AtomicFile::Create(output).status();
}

}  // namespace

Status EvaluateTagger(const proto::TokenClassificationConfig& user, Runtime& runtime) {
  DT_ASSIGN_OR_RETURN(TrainedTagger trained, internal::OpenTrainedTagger(user));
  internal::EmptyLists(runtime.arguments, {"data.dev", "data.test"}, trained.config);
  const proto::TokenClassificationDataConfig& data = trained.config.data();
  if (data.dev().empty() && data.test().empty()) {
    return UsageError("no sentences to evaluate on: the run had no data.dev; set it or data.test");
  }
  DT_ASSIGN_OR_RETURN(LoadedTagger loaded, Load(trained, runtime));
  DT_RETURN_IF_ERROR(Measure("dev", loaded, data.dev(), runtime));
  return Measure("test", loaded, data.test(), runtime);
}

Status PredictWithTagger(const proto::TokenClassificationConfig& user, Runtime& runtime) {
  const InvalidText invalid = internal::InvalidTextOf(user.predict().invalid());
  if (invalid == InvalidText::kSkip) {
    return UsageError(
        "predict.invalid=skip is for tables, and a skipped word would end its sentence; set "
        "replace "
        "or fail");
  }
  DT_ASSIGN_OR_RETURN(TrainedTagger trained, internal::OpenTrainedTagger(user));
  internal::EmptyLists(runtime.arguments, {"data.dev", "data.test"}, trained.config);
  const proto::TokenClassificationDataConfig& data = trained.config.data();
  const auto& paths = data.test().empty() ? data.dev() : data.test();
  if (paths.empty()) return UsageError("no sentences to tag: set data.test");
  std::string output = user.predict().output();
  if (output.empty()) {
    if (user.run().run_dir().empty()) {
      return UsageError("where shall predictions go? set predict.output, or give --run_dir");
    }
    output = user.run().run_dir() + "/predictions.conll";
  }
  DT_RETURN_IF_ERROR(
      ShareRootStatus(runtime.comm.is_root() ? PrepareOutput(output, data) : OkStatus(),
                      "look at predict.output", runtime.comm));
  DT_ASSIGN_OR_RETURN(LoadedTagger loaded, Load(trained, runtime));
  DT_ASSIGN_OR_RETURN(const TaggedSet tagged,
                      Tag(loaded, paths, /*has_tags=*/false, invalid, runtime));
  if (runtime.comm.is_root()) {
    DT_RETURN_IF_ERROR(WriteTags(output, tagged.set, tagged.predictions, trained.tags));
  }
  return PrintOnRoot(runtime, absl::StrFormat("%d sentences tagged, written to %s\n",
                                              tagged.set.sentences.size(), output));
}

}  // namespace dtrain
