// nmt_train_slurm_test.cc - the job script of contrib/slurm/ on a Slurm cluster of two nodes.
// SPDX-License-Identifier: Apache-2.0
//
// The cluster is namespaces of this machine (testing/slurm_cluster.sh). Skipped with a word where
// they are not allowed, or Slurm is not installed.
#include <memory>

#include "integration/two_hosts.h"

namespace dtrain {
namespace {

// Nodes "a" and "b", up as long as this object lives. Jobs run two ranks on each.
class SlurmCluster {
 public:
  // nullptr, after a warning, where this machine cannot have it.
  static std::unique_ptr<SlurmCluster> Start() {
    std::unique_ptr<SlurmCluster> cluster(new SlurmCluster);
    const Outcome up = RunCommand(cluster->Script("up"));
    INFO(up.output);
    if (up.exit_code == 77) {
      WARN(up.output);
      return nullptr;
    }
    REQUIRE(up.exit_code == 0);
    return cluster;
  }
  ~SlurmCluster() { RunCommand(Script("down")); }

  Outcome On(const std::string& command) const { return RunCommand(Script("on") + " " + command); }

  // Submits the job script, as a user does; returns the job's number.
  std::string Submit(const std::string& arguments) const {
    const Outcome outcome = On("env PATH=$(dirname " DTRAIN_TEST_PROGRAM
                               "):$PATH sbatch --parsable --ntasks-per-node=2 "
                               "--cpus-per-task=1 --output=" +
                               folder_.File("%j.out") + " " DTRAIN_TEST_JOB_SCRIPT " " + arguments);
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    return outcome.output.substr(0, outcome.output.find('\n'));
  }
  // A job's JobState, Restarts, ExitCode (as "75:0"), ...
  std::string FieldOf(const std::string& job, const std::string& name) const {
    const std::string text = On("scontrol --oneliner show job " + job).output;
    const size_t begin = text.find(" " + name + "=");
    REQUIRE(begin != std::string::npos);
    const size_t value = begin + name.size() + 2;
    return text.substr(value, text.find(' ', value) - value);
  }
  // What the job wrote, once it has reached `state`, which must come within `seconds`.
  std::string WaitFor(const std::string& job, const std::string& state, double seconds = 60) const {
    const bool has_ended = WaitUntil(
        [&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          return FieldOf(job, "JobState") == state;
        },
        seconds);
    const std::string output = ReadTestFile(folder_.File(job + ".out"));
    INFO(FieldOf(job, "JobState") << "\n" << output);
    REQUIRE(has_ended);
    return output;
  }
  std::vector<pid_t> RanksOn(const std::string& node, const ToyProgram& toy) const {
    return dtrain::RanksOn(folder_.File("cluster"), node, toy);
  }

 private:
  SlurmCluster() = default;

  std::string Script(const std::string& verb) const {
    return DTRAIN_TEST_SLURM_CLUSTER " " + verb + " " + folder_.File("cluster");
  }

  TemporaryFolder folder_;
};

std::string LongRun(const ToyProgram& toy, int steps) {
  return toy.Arguments(toy.Corpus() +
                       " trainer.checkpoint_every=100u trainer.keep_last=2 trainer.max_steps=" +
                       std::to_string(steps));
}

TEST_CASE("a job that Slurm stops queues itself again and ends with the weights of one host") {
  const std::unique_ptr<SlurmCluster> cluster = SlurmCluster::Start();
  if (!cluster) return;
  constexpr int kSteps = 1000;
  const ToyProgram toy;
  const std::string job = cluster->Submit(LongRun(toy, kSteps));
  REQUIRE(WaitUntil([&] { return toy.HasCheckpoint(100); }, 60));
  // As Slurm sends it before the time is up.
  REQUIRE(cluster->On("scancel --signal=TERM " + job).exit_code == 0);
  const std::string output = cluster->WaitFor(job, "COMPLETED");
  INFO(output);
  CHECK(cluster->FieldOf(job, "Restarts") == "1");
  CHECK(CountOf(output, "dtrain: stopped: stopped on request at step ") == 1);
  CHECK_THAT(toy.Log(), Catch::Contains("going on from " + toy.run_dir() + "/ckpt/step-00000"));
  CHECK_THAT(ReadTestFile(toy.run_dir() + "/logs/rank-00003.log"),
             Catch::Contains("rank 3 of 4 on host b, "));

  const ToyProgram one;
  REQUIRE(RunCommand(DTRAIN_TEST_MPIRUN " -n 4 " DTRAIN_TEST_PROGRAM " " + LongRun(one, kSteps))
              .exit_code == 0);
  const std::string weights = ReadTestFile(one.CheckpointFile(kSteps));
  CHECK(weights.size() > 10000);
  CHECK(ReadTestFile(toy.CheckpointFile(kSteps)) == weights);
}

TEST_CASE("a job fails for good where a rank is killed or its configuration is bad") {
  const std::unique_ptr<SlurmCluster> cluster = SlurmCluster::Start();
  if (!cluster) return;
  {
    const ToyProgram toy;
    const std::string job = cluster->Submit(LongRun(toy, 1000000));
    REQUIRE(WaitUntil([&] { return toy.HasCheckpoint(100); }, 60));
    // On b, where the job's script does not run.
    const std::vector<pid_t> ranks = cluster->RanksOn("b", toy);
    REQUIRE(ranks.size() == 2);
    REQUIRE(::kill(ranks[1], SIGKILL) == 0);
    const std::string output = cluster->WaitFor(job, "FAILED", 30);
    INFO(output);
    CHECK_THAT(output, Catch::Contains("srun: error: b: task") && Catch::Contains(": Killed"));
    CHECK(cluster->FieldOf(job, "Restarts") == "0");
    CHECK(CountProcesses(toy.run_dir()) == 0);
  }
  // What an earlier start left behind must not make it start again.
  const ToyProgram toy;
  std::filesystem::create_directories(toy.run_dir());
  WriteTestFile(toy.run_dir() + "/STATUS", "state stopped\nexit_code 75\n");
  const std::string job = cluster->Submit(toy.Arguments(toy.Corpus() + " model.num_heads=5"));
  const std::string output = cluster->WaitFor(job, "FAILED");
  CHECK_THAT(output, Catch::Contains("dtrain: error[E2]: model.hidden_size (32) must be"));
  CHECK(cluster->FieldOf(job, "Restarts") == "0");
  CHECK(cluster->FieldOf(job, "ExitCode") == "2:0");
}

TEST_CASE("srun without PMIx starts no run and tells the line to use") {
  const std::unique_ptr<SlurmCluster> cluster = SlurmCluster::Start();
  if (!cluster) return;
  const ToyProgram toy;
  for (const char* const mpi : {"none", "pmi2"}) {
    const Outcome outcome = cluster->On("srun --nodes=2 --ntasks=4 --mpi=" + std::string(mpi) +
                                        " " DTRAIN_TEST_PROGRAM " " + toy.Arguments(toy.Corpus()));
    INFO(outcome.output);
    CHECK(outcome.exit_code != 0);
    CHECK_THAT(outcome.output, Catch::Contains("use srun --mpi=pmix"));
    CHECK_FALSE(std::filesystem::exists(toy.run_dir()));
  }
}

}  // namespace
}  // namespace dtrain
