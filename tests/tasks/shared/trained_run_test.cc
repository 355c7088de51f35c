// trained_run_test.cc - what programs that use a trained model do alike.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/trained_run.h"

#include <filesystem>
#include <string>

#include "dtrain/classification.pb.h"
#include "dtrain/comm/self_communicator.h"
#include "dtrain/tasks/classification/program.h"
#include "tasks/classification/saved_classifier.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("data is beside a run's checkpoints or beside a checkpoint, never in one") {
  using internal::DataFolderBeside;
  CHECK(DataFolderBeside("/runs/a/ckpt/last") == "/runs/a/data");
  CHECK(DataFolderBeside("/runs/a/ckpt/last/") == "/runs/a/data");
  CHECK(DataFolderBeside("/runs/a/ckpt/best-f1//") == "/runs/a/data");
  CHECK(DataFolderBeside("/runs/a/../b/ckpt/step-00000007/.") == "/runs/b/data");
  CHECK(DataFolderBeside("/models/a") == "/models/data");
  CHECK(DataFolderBeside("/models/a/") == "/models/data");
  CHECK(DataFolderBeside("/models/ckpt") == "/models/data");
  const std::filesystem::path here = std::filesystem::current_path();
  CHECK(DataFolderBeside("a") == here / "data");
  CHECK(DataFolderBeside("ckpt/last") == here / "data");
}

TEST_CASE("a metric chooses among a run's checkpoints, not of one") {
  const testing::SavedRun run;
  const std::string checkpoint = run.folder.File("ckpt/step-00000007");
  CHECK(internal::OpenBestCheckpoint(checkpoint, "").ok());
  const Status refused = internal::OpenBestCheckpoint(checkpoint, "f1").status();
  CHECK(refused.code() == ExitCode::kUsage);
  CHECK(std::string(refused.message()) ==
        "--metric=f1 chooses among a run's checkpoints; " + checkpoint + " is one");
}

TEST_CASE("a classifier that is used leaves nothing among its run's checkpoints") {
  SelfCommunicator comm;
  Runtime runtime{.comm = comm, .device = {}, .mpi = "none", .arguments = {"bert_classify"}};
  for (const char* const from : {"", "ckpt", "ckpt/last", "ckpt/last/", "ckpt/step-00000007/"}) {
    // The cache that the run had is gone.
    const testing::SavedRun run(
        testing::SmallConfig("lower_case: false max_length: 16 cache: '/nowhere/at/all'"));
    INFO(from);
    WriteTestFile(run.folder.File("dev.tsv"), "text\tlabel\nx x\ta\nx\tb\n");
    proto::ClassificationConfig user;
    user.mutable_predict()->set_checkpoint(run.folder.File(from));
    user.mutable_data()->add_dev(run.folder.File("dev.tsv"));
    const Status status = EvaluateClassifier(user, runtime);
    INFO(std::string(status.message()));
    CHECK(status.ok());
    CHECK(std::filesystem::is_directory(run.folder.File("data")));
    CHECK_FALSE(std::filesystem::exists(run.folder.File("ckpt/data")));
    CHECK_FALSE(std::filesystem::exists(run.folder.File("ckpt/last/data")));
  }
}

}  // namespace
}  // namespace dtrain
