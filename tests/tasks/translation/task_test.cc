// task_test.cc - what a task takes from its prepared folder, and when.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/task.h"

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

std::string Contract(const ToyCorpus& corpus) {
  SelfCommunicator comm;
  return (*TranslationTask::Create(MakeToyRun(corpus).task, comm))->identity().shared_data;
}

// Makes the dev set the test set too.
void CopyDevToTest(const ToyCorpus& corpus) {
  for (const std::string ending : {".bin", ".src", ".ref"}) {
    fs::copy_file(corpus.path() + "/dev" + ending, corpus.path() + "/test" + ending);
  }
}

TEST_CASE("a checkpoint holds the vocabulary of its task, whatever becomes of the folder") {
  const ToyCorpus corpus;
  SelfCommunicator comm;
  const std::unique_ptr<TranslationTask> task =
      *TranslationTask::Create(MakeToyRun(corpus).task, comm);
  const std::string vocabulary = ReadTestFile(corpus.path() + "/vocab.spm");
  const auto check = [&] {
    const std::vector<NamedFile> files = task->CheckpointFiles();
    REQUIRE(files.size() == 2);
    CHECK(files[1].name == "vocab.spm");
    CHECK(files[1].contents == vocabulary);
  };
  WriteTestFile(corpus.path() + "/vocab.spm", "another");
  check();
  fs::remove(corpus.path() + "/vocab.spm");
  check();
}

TEST_CASE("ranks with other dev or test sets are told apart before they train") {
  const ToyCorpus corpus;
  const std::string with_dev = Contract(corpus);
  CHECK_THAT(with_dev, Catch::Contains("dev pairs 6\n") && Catch::EndsWith("test none\n"));
  CopyDevToTest(corpus);
  const std::string with_test = Contract(corpus);
  CHECK_THAT(with_test, Catch::Contains("test pairs 6\ntest checksum "));
  for (const std::string ending : {".bin", ".src", ".ref"}) {
    fs::remove(corpus.path() + "/dev" + ending);
  }
  CHECK(Contract(corpus).find("dev pairs") == std::string::npos);
}

TEST_CASE("a test set that appears or vanishes after the start is told from the start") {
  const ToyCorpus corpus;
  const TranslationTaskOptions options = MakeToyRun(corpus).task;
  SelfCommunicator comm;
  Context ctx(options.device);
  const std::unique_ptr<TranslationTask> without = *TranslationTask::Create(options, comm);
  CopyDevToTest(corpus);
  const StatusOr<EvaluationResult> none = without->EvaluateTest(ctx);
  REQUIRE(none.ok());
  CHECK(none->metrics.empty());
  const std::unique_ptr<TranslationTask> with = *TranslationTask::Create(options, comm);
  CHECK(with->EvaluateTest(ctx)->Has("bleu"));
  fs::remove(corpus.path() + "/test.bin");
  CHECK_FALSE(with->EvaluateTest(ctx).ok());
}

TEST_CASE("the samples of an evaluation are among the sentences evaluated, none twice") {
  const ToyCorpus corpus(240, 20);
  TranslationTaskOptions options = MakeToyRun(corpus).task;
  options.eval_samples = 5;
  SelfCommunicator comm;
  Context ctx(options.device);
  for (const int64_t most : {0, 10, 6, 3}) {
    INFO(most << " sentences at most");
    options.eval_max_sentences = most;
    const std::unique_ptr<TranslationTask> task = *TranslationTask::Create(options, comm);
    const EvaluationResult result = *task->Evaluate(ctx);
    CHECK(result.samples.size() == (most == 3 ? 3u : 5u));
    std::set<std::string> sources;
    for (const EvaluationSample& sample : result.samples) sources.insert(sample.source);
    CHECK(sources.size() == result.samples.size());
  }
}

TEST_CASE("a part of the dev set is every k-th of its sentences, measured as in the whole set") {
  const ToyCorpus corpus(240, 20);
  TranslationTaskOptions options = MakeToyRun(corpus).task;
  SelfCommunicator comm;
  Context ctx(options.device);
  const EvaluationResult all = *(*TranslationTask::Create(options, comm))->Evaluate(ctx);
  CHECK(all.rows.rows.size() == 20);
  options.eval_max_sentences = 5;
  const std::unique_ptr<TranslationTask> task = *TranslationTask::Create(options, comm);
  const EvaluationResult part = *task->Evaluate(ctx);
  REQUIRE(part.rows.rows == std::vector<int32_t>{0, 4, 8, 12, 16});
  double sum = 0.0;
  double tokens = 0.0;
  for (size_t i = 0; i < part.rows.rows.size(); ++i) {
    const float nll = part.rows.Find("nll.sum")->values[i];
    CHECK(nll == Approx(all.rows.Find("nll.sum")->values[4 * i]).epsilon(1e-4));
    sum += nll;
    tokens += part.rows.Find("nll.count")->values[i];
  }
  CHECK(part.Metric("nll") == Approx(sum / tokens).epsilon(1e-5));
  CHECK_THAT(task->identity().evaluation, Catch::Contains("dev pairs 5 of 20\n"));
  const EvaluationResult sample = *task->evaluation().sample(ctx);
  REQUIRE(sample.metrics.size() == 1);
  CHECK(sample.metrics[0].first == "nll");
  CHECK(sample.Metric("nll") == Approx(part.Metric("nll")).epsilon(0.2));  // nothing is learned yet
}

TEST_CASE("a set of which a file is missing is a data error that names it") {
  for (const std::string name : {"dev.src", "dev.ref", "dev.bin"}) {
    const ToyCorpus corpus;
    fs::remove(corpus.path() + "/" + name);
    SelfCommunicator comm;
    const Status status = TranslationTask::Create(MakeToyRun(corpus).task, comm).status();
    CHECK(status.code() == ExitCode::kData);
    CHECK_THAT(std::string(status.message()), Catch::Contains("/" + name + ": "));
  }
}

TEST_CASE("micro-batches too small for an update are refused") {
  const ToyCorpus corpus;
  TranslationTaskOptions options = MakeToyRun(corpus).task;
  options.batch.tokens_per_batch = 5000;
  options.micro_batch_tokens = 4;
  SelfCommunicator comm;
  const Status status = TranslationTask::Create(options, comm).status();
  CHECK(status.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(status.message()), Catch::Contains("raise trainer.micro_batch_tokens"));
}

}  // namespace
}  // namespace dtrain
