// header_examples_test.cc - the examples at the head of the public headers compile and run.
// SPDX-License-Identifier: Apache-2.0
#include "integration/header_examples.h"

#include <filesystem>

#include "dtrain/base/log.h"
#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

// True if the example ended well, or only lacked a file of the user's.
bool EndedWell(const Status& status) {
  const bool lacks_run = status.code() == ExitCode::kUsage &&
                         status.message().find("no such run") != std::string::npos;
  return status.ok() || lacks_run || status.code() == ExitCode::kData ||
         status.code() == ExitCode::kStorage;
}

TEST_CASE("the example of every public header runs") {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  REQUIRE(HeaderExamples().size() >= 30);
  for (const HeaderExample& example : HeaderExamples()) {
    INFO(example.header);
    SelfCommunicator alone;
    Runtime runtime{.comm = alone, .device = {}, .threads = 1, .mpi = "none", .arguments = {}};
    Context ctx;
    ExampleModel model;
    const LogSink sink = SetLogSink([](LogLevel, std::string_view) {});
    const Status status = example.run(runtime, alone, ctx, model);
    SetLogSink(sink);
    INFO(status.message());
    CHECK(EndedWell(status));
  }
  std::filesystem::current_path(before);
}

TEST_CASE("the training loop of train_loop.h learns its task") {
  SelfCommunicator alone;
  Runtime runtime{.comm = alone, .device = {}, .threads = 1, .mpi = "none", .arguments = {}};
  Context ctx;
  ExampleModel model;
  Adam adam(model.parameters(), {});
  TrainLoop loop(alone, runtime.StopRequests(), ctx, model.parameters(), adam,
                 {.updates = 50,
                  .samples_per_epoch = 64,
                  .samples_per_update = 16,
                  .learning_rate = {.base = 0.1}});
  double first = 0.0;
  double last = 0.0;
  while (loop.NextUpdate()) {
    LossSums sums;
    for (const SampleRange& part : loop.MicroBatches()) {
      sums += model.Forward(part, ctx);
      model.Backward(ctx);
    }
    loop.Add(sums);
    loop.Update();
    last = sums.loss / static_cast<double>(sums.tokens);
    if (loop.step() == 1) first = last;
  }
  CHECK(loop.Finish().ok());
  CHECK(loop.step() == 50);
  CHECK(last < 0.1 * first);
}

}  // namespace
}  // namespace dtrain
