// main_test.cc - every way a program ends: its message, printed once, and its exit code.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "dtrain/device/device.h"
#include "dtrain/device/with_cuda.h"
#include "testing/catch.h"
#include "testing/launcher.h"

namespace {

struct Outcome {
  int exit_code = -1;  // 128 + signal where one ended it
  std::string output;  // stdout and stderr
};

Outcome Shell(const std::string& command) {
  Outcome outcome;
  std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  for (size_t count = 0; (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    outcome.output.append(buffer.data(), count);
  }
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

constexpr char kData[] = " data.prepared=/data ";

// The program alone, with a valid configuration and more arguments.
Outcome Alone(const std::string& end, const std::string& arguments = "") {
  return Shell("DTRAIN_TEST_END=" + end + " " DTRAIN_TEST_PROGRAM + kData + arguments);
}

Outcome OnTwoRanks(const std::string& end, const std::string& arguments = kData) {
  return Shell("DTRAIN_TEST_END=" + end +
               " OMPI_MCA_odls_base_sigkill_timeout=0 "
               "PRTE_MCA_odls_base_sigkill_timeout=0 " DTRAIN_TEST_MPIRUN
               " -n 2 " DTRAIN_TEST_PROGRAM " " +
               arguments);
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST_CASE("a rank that restarted itself is called by its program's name") {
  // Without these variables the program restarts itself. The kernel keeps 15 characters of a name.
  const std::string restarting =
      "env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT DTRAIN_TEST_END=all:name ";
  const std::string name = "called main_test_progr with 2 arguments\n";
  CHECK(Shell(restarting + DTRAIN_TEST_PROGRAM + kData).output == name);
  const Outcome ranks = Shell(restarting + DTRAIN_TEST_MPIRUN " -n 2 " DTRAIN_TEST_PROGRAM + kData);
  CHECK(Count(ranks.output, name) == 2);
}

TEST_CASE("each kind of failure has its exit code and one line that says so") {
  struct Case {
    const char* end;
    int exit_code;
    const char* report;
  };
  const Case cases[] = {
      {"all:usage", 2, "dtrain: error[E2]: a usage error (see docs/errors.md#e2)\n"},
      {"all:data", 3, "dtrain: error[E3]: corpus.en:7: bad bytes (see docs/errors.md#e3)\n"},
      {"all:diverged", 4, "dtrain: error[E4]: the loss is infinite (see docs/errors.md#e4)\n"},
      {"all:memory", 5, "dtrain: error[E5]: out of memory; lower trainer.micro_batch_tokens"},
      {"all:comm", 6, "dtrain: error[E6]: rank 1 is gone (see docs/errors.md#e6)\n"},
      {"all:storage", 7, "dtrain: error[E7]: disk full (see docs/errors.md#e7)\n"},
      {"all:stopped", 75, "dtrain: stopped: at update 7 (see docs/errors.md#e75)\n"},
      {"all:exception", 1, "dtrain: error[E1]: something else (see docs/errors.md#e1)\n"},
  };
  for (const Case& c : cases) {
    INFO(c.end);
    const Outcome outcome = Alone(c.end);
    CHECK(outcome.exit_code == c.exit_code);
    CHECK_THAT(outcome.output, Catch::StartsWith(c.report));
    CHECK(Count(outcome.output, "\n") == 1);
  }
  const Outcome check = Alone("all:check");
  CHECK(check.exit_code == 1);
  CHECK_THAT(check.output, Catch::StartsWith("dtrain: error[E1]: ") &&
                               Catch::Contains("(2 vs 3)") && Catch::Contains("arithmetic"));
  const Outcome well = Alone("all:well");
  CHECK(well.exit_code == 0);
  CHECK(well.output.empty());
}

TEST_CASE("a full GPU is reported with who holds what and three remedies, and code 5") {
  const std::string holders =
      "dtrain: error[E5]: cuda:0 is full: activations need 12 MiB more (held: moments 8 MiB, "
      "weights 4 MiB); ";
  const Outcome plain = Alone("all:gpu_memory");
  CHECK(plain.exit_code == 5);
  CHECK_THAT(plain.output, Catch::StartsWith(holders + "lower trainer.micro_batch_tokens"));
  const Outcome outcome = Alone("all:gpu_remedies");
  INFO(outcome.output);
  CHECK(outcome.exit_code == 5);
  CHECK(Count(outcome.output, "\n") == 1);
  CHECK_THAT(outcome.output, Catch::StartsWith(holders + "activations are planned with ") &&
                                 Catch::Contains("(1) trainer.micro_batch_tokens=2048: ") &&
                                 Catch::Contains("(2) trainer.recompute=") &&
                                 Catch::Contains("% more FLOPs") &&
                                 Catch::Contains("(3) trainer.precision=bf16: "));
}

TEST_CASE("a data error on rank 1 ends all ranks with code 3 and one message") {
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = OnTwoRanks("1:data");
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  INFO(outcome.output);
  CHECK(outcome.exit_code == 3);
  CHECK(Count(outcome.output, "dtrain: ") == 1);
  CHECK_THAT(outcome.output, Catch::Contains("dtrain: error[E3]: rank 1: corpus.en:7: bad bytes "
                                             "(see docs/errors.md#e3)\n"));
  CHECK(seconds < 10);
}

TEST_CASE("an error that all ranks meet is printed once") {
  for (const char* end : {"all:storage", "all:memory"}) {
    const Outcome outcome = OnTwoRanks(end);
    INFO(outcome.output);
    CHECK(outcome.exit_code == (std::string(end) == "all:storage" ? 7 : 5));
    CHECK(Count(outcome.output, "dtrain: error") == 1);
  }
}

TEST_CASE("an error in the configuration is printed once and ends all ranks with code 2") {
  const Outcome outcome = OnTwoRanks("all:well", "model.dropuot=1");
  INFO(outcome.output);
  CHECK(outcome.exit_code == 2);
  CHECK(Count(outcome.output, "dtrain: error[E2]: ") == 1);
  CHECK_THAT(outcome.output, Catch::Contains("did you mean model.dropout?"));
}

TEST_CASE("a stop on request ends all ranks with code 75 and one message") {
  const Outcome outcome = OnTwoRanks("all:stopped");
  INFO(outcome.output);
  CHECK(outcome.exit_code == 75);
  CHECK(Count(outcome.output, "dtrain: stopped: at update 7 (see docs/errors.md#e75)") == 1);
}

TEST_CASE("signals set flags and a second interrupt ends the process") {
  const Outcome flags = Alone("all:signals");
  CHECK(flags.exit_code == 0);
  CHECK(flags.output == "flags 111\n");
  const Outcome interrupt = Alone("all:interrupt");
  CHECK(interrupt.exit_code == 130);
  CHECK(interrupt.output == "stop 1\n");
}

TEST_CASE("signals that were ignored where the program started stay so") {
  const Outcome outcome =
      Shell("trap '' INT TERM HUP; DTRAIN_TEST_END=all:ignored " DTRAIN_TEST_PROGRAM +
            std::string(kData));
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.output == "stop 0\n");
}

TEST_CASE("signals end a program that never asked for stop requests") {
  CHECK(Alone("all:terminate").exit_code == 128 + SIGTERM);
  CHECK(Alone("all:first_interrupt").exit_code == 128 + SIGINT);
}

TEST_CASE("log lines go to the file of the rank and warnings to the terminal too") {
  std::string directory = (std::filesystem::temp_directory_path() / "dtrain-XXXXXX").string();
  REQUIRE(mkdtemp(directory.data()) != nullptr);
  const Outcome outcome = OnTwoRanks("all:log", kData + ("run.run_dir=" + directory));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  for (const std::string rank : {"0", "1"}) {
    CHECK(Count(outcome.output, "dtrain: warning: rank " + rank + ": a loud line\n") == 1);
    std::ostringstream text;
    text << std::ifstream(directory + "/logs/rank-0000" + rank + ".log").rdbuf();
    CHECK_THAT(text.str(), Catch::Matches("20..-..-..T..:..:..\\....Z info    rank " + rank +
                                          " of 2 on host .*, process .*, 1 thread\n"
                                          "20..-..-..T..:..:..\\....Z info    a quiet line\n"
                                          "20..-..-..T..:..:..\\....Z warning a loud line\n"));
  }
  CHECK(Count(outcome.output, "quiet") == 0);
  std::filesystem::remove_all(directory);
  const Outcome denied = Alone("all:log", "run.run_dir=/dev/null");
  CHECK(denied.exit_code == 7);
  CHECK_THAT(denied.output, Catch::Contains("/dev/null/logs: cannot create the folder"));
}

TEST_CASE("in every program threads that wait sleep soon, unless the user says otherwise") {
  const std::string unset = "env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT ";
  const std::string bare = DTRAIN_TEST_PROGRAM " bare 'a b' ''";
  CHECK(Shell(unset + bare).output == "rank 0 spin 5000 arguments bare|a b|\n");
  const std::string mpirun = std::string(DTRAIN_TEST_MPIRUN) + dtrain::launcher::kTagged + "-n 2 ";
  const Outcome ranks = Shell(unset + mpirun + bare);
  INFO(ranks.output);
  CHECK_THAT(ranks.output, Catch::Contains("rank 0 spin 5000 arguments bare|a b|\n") &&
                               Catch::Contains("rank 1 spin 5000 arguments bare|a b|\n"));
  CHECK(Shell(unset + "GOMP_SPINCOUNT=7 " + bare).output == "rank 0 spin 7 arguments bare|a b|\n");
  CHECK_THAT(Shell(unset + "OMP_WAIT_POLICY=passive " + bare).output,
             Catch::Contains("spin unset"));
  // A restart would end it.
  CHECK(Shell(unset + DTRAIN_TEST_PROGRAM " bare thread").output ==
        "rank 0 spin unset arguments bare|thread\n");
}

TEST_CASE("flags and keys reach the program") {
  const Outcome outcome = Alone("all:threads", "--threads=1 --device cpu");
  CHECK(outcome.output == "threads 1 device 1\n");
}

TEST_CASE("a GPU that is not there is a usage error") {
  // On a machine with GPUs: none that the program may use.
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  const Outcome outcome = Alone("all:well", "--device=cuda");
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.output,
             Catch::Contains(dtrain::kWithCuda ? "run.device=cuda: no usable GPU on host"
                                               : "this build has no CUDA device"));
}

TEST_CASE("the configuration is printed instead of a run") {
  const Outcome minimal = Alone("all:data", "--print_config=minimal --max_steps=7");
  CHECK(minimal.exit_code == 0);
  CHECK(minimal.output == "trainer {\n  max_steps: 7\n}\ndata {\n  prepared: \"/data\"\n}\n");
  CHECK_THAT(Alone("all:data", "--print_config=json").output,
             Catch::Contains("\"hidden_size\": 512"));
  const Outcome help = Alone("all:data", "--help model.nonsense=1");
  CHECK(help.exit_code == 0);
  CHECK_THAT(help.output, Catch::StartsWith("main_test_program - ends in every way") &&
                              Catch::Contains("--config=FILE,..."));
  CHECK_THAT(Alone("all:data", "--help_config=optimizer").output,
             Catch::Contains("optimizer.beta2=0.98"));
  CHECK(Alone("all:data", "--help_config optimizer").output ==
        Alone("all:data", "--help_config=optimizer").output);
  CHECK_THAT(Alone("all:data", "--help_config model.nonsense=1").output,
             Catch::Contains("optimizer.beta2=0.98") && Catch::Contains("model.hidden_size="));
  CHECK_THAT(Alone("all:data", "--version").output, Catch::StartsWith("dtrain "));
}

TEST_CASE("a wrong command line says what is right") {
  struct Case {
    const char* arguments;
    const char* message;
  };
  const Case cases[] = {
      {"--confg=a", "--confg: unknown flag; did you mean --config? (see --help)"},
      {"-c=a", "dtrain: error[E2]: -c: unknown flag"},
      {"--model.dropout=0",
       "--model.dropout: unknown flag; it is a key of the configuration, which has no dashes: "
       "model.dropout=0"},
      {"--max_steps", "--max_steps needs a value: --max_steps=N"},
      {"--max_steps=x", "trainer.max_steps is a whole number (int64), not \"x\""},
      {"--help=1", "--help takes no value"},
      {"--print_config=xml", "--print_config is one of full, minimal, json, not \"xml\""},
      {"--help_config=modl", "--help_config: unknown key \"modl\"; did you mean model?"},
      {"--config=/no/such", "/no/such: cannot read the configuration: No such file or directory"},
      {"tiny.textproto", "tiny.textproto: an argument is either a --flag or key.path=value"},
      {"model.num_heads=7", "model.hidden_size (512) must be a multiple of model.num_heads (7)"},
  };
  for (const Case& c : cases) {
    INFO(c.arguments);
    const Outcome outcome = Alone("all:well", c.arguments);
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.output, Catch::Contains(c.message));
    CHECK(Count(outcome.output, "\n") == 1);
  }
}

#ifdef DTRAIN_TEST_TOOL
TEST_CASE("the tool lists its commands, explains them and names the nearest one") {
  const std::string tool = DTRAIN_TEST_TOOL;
  const Outcome help = Shell(tool + " help");
  CHECK(help.exit_code == 0);
  CHECK_THAT(help.output, Catch::Contains("Usage: dtrain COMMAND"));
  CHECK(Shell(tool).exit_code == 2);
  CHECK_THAT(Shell(tool + " version").output, Catch::StartsWith("dtrain "));
  CHECK_THAT(Shell(tool + " help version").output, Catch::Contains("Usage: dtrain version"));
  const Outcome of_help = Shell(tool + " help help");
  CHECK(of_help.exit_code == 0);
  CHECK(of_help.output == help.output);
  const Outcome unknown = Shell(tool + " versoin");
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.output, Catch::StartsWith("dtrain: error[E2]: unknown command \"versoin\"; "
                                               "did you mean version?"));
  const Outcome argument = Shell(tool + " version x");
  CHECK(argument.exit_code == 2);
  CHECK_THAT(argument.output, Catch::Contains("unexpected argument \"x\""));
}
#endif

}  // namespace
