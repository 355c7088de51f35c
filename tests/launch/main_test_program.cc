// main_test_program.cc - a program that ends in every way there is; main_test.cc runs it.
// SPDX-License-Identifier: Apache-2.0
//
// DTRAIN_TEST_END=RANK:WAY, RANK "all" or a number. The other ranks wait for it in a barrier.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "absl/strings/str_join.h"
#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/device/arena.h"
#include "dtrain/launch/main.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/tasks/translation/config.h"
#include "dtrain/tasks/translation/memory_plan.h"
#include "dtrain/tasks/translation/options.h"

namespace {

using dtrain::Runtime;

// To the process; returns when the flag is set, or after some seconds.
void Send(int signal, const std::atomic<bool>& flag) {
  kill(getpid(), signal);
  for (int i = 0; i < 5000 && !flag; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

dtrain::Status EndIn(const std::string& way, const dtrain::proto::NmtConfig& config,
                     Runtime& runtime) {
  if (way == "usage") return dtrain::UsageError("a usage error");
  if (way == "data") return dtrain::DataError("corpus.en:7: bad bytes");
  if (way == "diverged") return dtrain::DivergedError("the loss is infinite");
  if (way == "storage") return dtrain::StorageError("disk full");
  if (way == "stopped") return dtrain::StoppedError("at update 7");
  if (way == "check") DT_CHECK_EQ(1 + 1, 3) << "arithmetic";
  if (way == "memory") throw std::bad_alloc();
  if (way == "gpu_memory" || way == "gpu_remedies") {
    if (way == "gpu_remedies") {
      dtrain::Seq2SeqOptions model = dtrain::ModelOptionsOf(config.model());
      model.vocab_size = 1000;
      const dtrain::Seq2SeqBatch batch = dtrain::MicroBatchOf(config.trainer(), 1, {});
      const auto plan =
          dtrain::PlanMemory(dtrain::MemoryOptionsOf(config), dtrain::CostsOf(model, batch),
                             dtrain::DeviceType::kCuda, 0);
      runtime.memory_remedies = [&config, model, batch, plan] {
        return dtrain::MemoryRemedies(config, model, batch, plan, dtrain::DeviceType::kCuda);
      };
    }
    throw dtrain::DeviceMemoryError(
        "cuda:0 is full: activations need 12 MiB more (held: moments 8 "
        "MiB, weights 4 MiB)");
  }
  if (way == "name") {
    std::string name;
    std::getline(std::ifstream("/proc/self/comm"), name);
    std::printf("called %s with %zu arguments\n", name.c_str(), runtime.arguments.size());
    return dtrain::OkStatus();
  }
  if (way == "comm") throw dtrain::CommError("rank 1 is gone");
  if (way == "exception") throw std::runtime_error("something else");
  if (way == "log") {
    DT_RETURN_IF_ERROR(runtime.OpenLog(config.run().run_dir()));
    dtrain::LogInfo("a quiet line");
    dtrain::LogWarning("a loud line");
  }
  const std::atomic<bool> never = false;
  if (way == "signals") {
    dtrain::StopFlags& flags = runtime.StopRequests();
    Send(SIGUSR1, flags.checkpoint);
    Send(SIGUSR2, flags.timeline);
    Send(SIGTERM, flags.stop);
    std::printf("flags %d%d%d\n", flags.checkpoint.load(), flags.timeline.load(),
                flags.stop.load());
  }
  if (way == "interrupt") {
    dtrain::StopFlags& flags = runtime.StopRequests();
    Send(SIGINT, flags.stop);
    std::printf("stop %d\n", flags.stop.load());
    std::fflush(stdout);
    Send(SIGINT, never);
  }
  if (way == "ignored") {
    dtrain::StopFlags& flags = runtime.StopRequests();
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) kill(getpid(), signal);
    Send(SIGUSR1, flags.checkpoint);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::printf("stop %d\n", flags.stop.load());
  }
  // Who never asks for stop requests ends as any program does.
  if (way == "terminate") Send(SIGTERM, never);
  if (way == "first_interrupt") Send(SIGINT, never);
  if (way == "threads")
    std::printf("threads %d device %d\n", runtime.threads, config.run().device());
  return dtrain::OkStatus();
}

dtrain::Status Run(const dtrain::proto::NmtConfig& config, Runtime& runtime) {
  const char* const text = std::getenv("DTRAIN_TEST_END");
  const std::string plan = text == nullptr ? "all:well" : text;
  const std::string who = plan.substr(0, plan.find(':'));
  if (who == "all" || std::stoi(who) == runtime.comm.rank()) {
    DT_RETURN_IF_ERROR(EndIn(plan.substr(plan.find(':') + 1), config, runtime));
  }
  runtime.comm.Barrier();
  return dtrain::OkStatus();
}

// A main() of one's own, which hands on a part of its arguments: what they and the environment are
// in the body, from rank 0.
int RunBare(int argc, char** argv) {
  std::atomic<bool> done = false;
  std::optional<std::thread> other;
  if (argc > 2 && std::string(argv[2]) == "thread") {
    other.emplace([&] {
      while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }
  const int exit_code =
      dtrain::RunOnRanks(argc - 1, argv + 1, {}, dtrain::OkStatus(), [&](Runtime& runtime) {
        const char* const spin = std::getenv("GOMP_SPINCOUNT");
        std::printf("rank %d spin %s arguments %s\n", runtime.comm.rank(),
                    spin == nullptr ? "unset" : spin,
                    absl::StrJoin(runtime.arguments, "|").c_str());
        return dtrain::OkStatus();
      });
  done = true;
  if (other) other->join();
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "bare") return RunBare(argc, argv);
  return dtrain::Main<dtrain::proto::NmtConfig>(argc, argv,
                                                {.name = "main_test_program",
                                                 .summary = "ends in every way there is",
                                                 .validate = dtrain::ValidateNmtConfig,
                                                 .run = Run});
}
