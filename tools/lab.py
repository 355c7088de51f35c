#!/usr/bin/env python3
# lab.py - times variants of training steps on a GPU in turns, and says which are faster.
# SPDX-License-Identifier: Apache-2.0
"""Answers questions about whole training steps with one run on a GPU, which may be lent for minutes.

  dtrain-bundle/run lab.py                    a bundle of tools/bundle.sh, on the machine with the GPU
  tools/lab.py --build build/cuda             a build of the preset cuda with its tests and benches
  ... --before DIR                            also this version beside another bundle
  ... --only NAME,NAME                        only these experiments, of those that --list names

An experiment is two ways to do the same. First its tests run on the GPU: a way that is wrong is not timed.
Then both take turns, each time in a process of its own with a time limit: A B, B A, A B. The rule is fixed
here, before anybody has seen a time: a way is faster if its median is at least 3 % shorter and its slowest
turn is shorter than the other's fastest. Otherwise the two are equal, and the simpler one stays.

What --seconds leave no time for is not timed, and the table says so. Ends with 0 if all was timed, 1 if a
test failed, 2 where there is no GPU, 3 if something was not timed.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

LEAST_GAIN = 1.03
TEST_SECONDS = 120
TURN_SECONDS = 60
NO_GPU = 2


@dataclasses.dataclass
class Experiment:
    name: str
    question: str
    models: tuple
    ways: dict            # {name: options of dtrain_step_bench}, two of them
    tests: tuple = ()     # regular names in tests.txt
    common: tuple = ()    # options of both ways


EXPERIMENTS = [
    Experiment("warpgroups", "attention by products of warpgroups (ADR 32)",
               ("bert_large", "bert_base", "nmt_base"),
               {"native": ("--attention=native",), "warpgroups": ("--attention=warpgroups",)},
               tests=("ops/attention_test/cuda",)),
    Experiment("graph", "forward and backward repeated as a CUDA graph",
               ("nmt_base", "bert_base", "bert_large"),
               {"launches": (), "graph": ("--graph",)}),
    Experiment("cudnn", "cuDNN's attention without dropout",
               ("bert_large", "bert_base"),
               {"native": ("--attention=native",), "cudnn": ("--attention=cudnn",)},
               common=("--dropout=0",)),
    Experiment("tuning", "products chosen by measurement",
               ("bert_large", "bert_base", "nmt_base"),
               {"heuristic": ("--gemm_tuning=heuristic",), "measure": ("--gemm_tuning=measure",)}),
]


@dataclasses.dataclass
class Program:
    """A version of dtrain: where its programs and tests lie."""
    bench: pathlib.Path
    tests: pathlib.Path
    environment: dict

    @staticmethod
    def of_bundle(folder):
        # The bundle's env.sh knows where this machine has CUDA's libraries.
        text = subprocess.run(["bash", "-c", 'source "$0/env.sh" && env -0', str(folder)],
                              capture_output=True, check=True).stdout.decode()
        environment = dict(line.split("=", 1) for line in text.split("\0") if "=" in line)
        return Program(folder / "bin/dtrain_step_bench", folder / "tests", environment)

    @staticmethod
    def of_build(folder):
        return Program(folder / "bin/dtrain_step_bench", folder / "tests", dict(os.environ))

    def test(self, name, log):
        """True if the test passes, None if this version does not have it."""
        listed = self.tests / "tests.txt"
        if not listed.exists():
            return None
        for line in listed.read_text().splitlines():
            _, test, _, program, *variables = line.split()
            if test != name:
                continue
            environment = self.environment | dict(v.split("=", 1) for v in variables)
            return run([str(self.tests / program)], environment, TEST_SECONDS, log) is not None
        return None

    def turn(self, model, options, log):
        """Milliseconds of a step, or None."""
        command = [str(self.bench), "--device=cuda", f"--model={model}", *options]
        output = run(command, self.environment, TURN_SECONDS, log)
        if output is None:
            return None
        for line in reversed(output.splitlines()):
            if line.startswith("{"):
                return float(json.loads(line)["ms_median"])
        return None


def run(command, environment, seconds, log):
    """The command's output, or None if it failed or took longer. All goes to the log."""
    log.write(f"$ {' '.join(command)}\n")
    try:
        done = subprocess.run(command, env=environment, timeout=seconds, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired:
        log.write(f"took longer than {seconds} s\n")
        return None
    log.write(done.stdout)
    log.flush()
    if done.returncode != 0:
        log.write(f"ended with {done.returncode}\n")
        return None
    return done.stdout


def verdict(times):
    """What the rule says of {way: [ms]}, ways in their order."""
    (first, a), (second, b) = times.items()
    if not a or not b:
        return "not timed"
    ratio = statistics.median(a) / statistics.median(b)
    if ratio >= LEAST_GAIN and max(b) < min(a):
        return f"{second} is faster"
    if 1 / ratio >= LEAST_GAIN and max(a) < min(b):
        return f"{first} is faster"
    return "equal"


class Lab:
    def __init__(self, options, log):
        self.options = options
        self.log = log
        self.deadline = time.monotonic() + options.seconds
        self.failed = self.missed = False
        self.rows = []

    def has_time_for(self, seconds):
        return time.monotonic() + seconds < self.deadline

    def compare(self, name, model, ways):
        """ways: {name: (program, options)}. Times both in turns, as often as there is time."""
        times = {way: [] for way in ways}
        longest = 5.0
        for turn in range(self.options.turns):
            for way in list(ways) if turn % 2 == 0 else list(reversed(ways)):
                if not self.has_time_for(1.5 * longest):
                    break
                started = time.monotonic()
                program, options = ways[way]
                ms = program.turn(model, options, self.log)
                longest = max(longest, time.monotonic() - started)
                if ms is not None:
                    times[way].append(ms)
        result = verdict(times)
        self.missed |= result == "not timed"
        self.rows.append((name, model, times, result))
        cells = [f"{way} {statistics.median(ms):.3f} ms of {len(ms)}" if ms else f"{way} -"
                 for way, ms in times.items()]
        print(f"{name:12} {model:11} {', '.join(cells)}: {result}", flush=True)

    def experiment(self, experiment, program, precision):
        print(f"\n== {experiment.name}: {experiment.question}", flush=True)
        for test in experiment.tests:
            passed = program.test(test, self.log)
            if passed is None:
                print(f"{test} is not here", flush=True)
                self.missed = True
            elif not passed:
                print(f"{test} FAILED: not timed", flush=True)
                self.failed = True
                return
            else:
                print(f"{test} passed", flush=True)
        common = (f"--precision={precision}", f"--steps={self.options.steps}", *experiment.common)
        if not any("--gemm_tuning" in option for way in experiment.ways.values() for option in way):
            common += ("--gemm_tuning=measure",)
        for model in experiment.models:
            self.compare(experiment.name, model,
                         {way: (program, common + options)
                          for way, options in experiment.ways.items()})

    def before(self, program, older, precision):
        print("\n== before: this version beside another", flush=True)
        options = (f"--precision={precision}", f"--steps={self.options.steps}",
                   "--gemm_tuning=measure")
        for model in ("bert_large", "bert_base", "nmt_base"):
            self.compare("before", model, {"before": (older, options), "now": (program, options)})


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, help="folder of a bundle; default: its own")
    parser.add_argument("--build", type=pathlib.Path, help="a build folder instead of a bundle")
    parser.add_argument("--before", type=pathlib.Path, help="another bundle")
    parser.add_argument("--only", help="names of experiments, and before; default: all")
    parser.add_argument("--list", action="store_true", help="prints the experiments")
    parser.add_argument("--seconds", type=float, default=480, help="the run's time (480)")
    parser.add_argument("--turns", type=int, default=3, help="of each way (3)")
    parser.add_argument("--steps", type=int, default=40, help="timed steps a turn (40)")
    parser.add_argument("--precision", default="bf16", help="bf16 or fp16")
    parser.add_argument("--json", type=pathlib.Path, help="writes all times here")
    parser.add_argument("--log", type=pathlib.Path, default=pathlib.Path("lab.log"),
                        help="what the programs print (lab.log)")
    options = parser.parse_args()
    names = [experiment.name for experiment in EXPERIMENTS] + ["before"]
    options.only = options.only.split(",") if options.only else names
    for name in options.only:
        if name not in names:
            parser.error(f"there is no experiment {name}; there are {', '.join(names)}")
    if options.before and "before" not in options.only:
        parser.error("--before is given, but --only leaves it out")
    return options


def main():
    options = parse_arguments()
    if options.list:
        for experiment in EXPERIMENTS:
            print(f"{experiment.name:12} {experiment.question}: {', '.join(experiment.models)}")
        return 0
    bundle = options.bundle or pathlib.Path(__file__).resolve().parent.parent
    program = Program.of_build(options.build.resolve()) if options.build \
        else Program.of_bundle(bundle.resolve())
    if not program.bench.exists():
        sys.exit(f"lab.py: {program.bench} is not there: make a bundle (tools/bundle.sh) or give "
                 "--build")
    with options.log.open("w") as log:
        probe = run([str(program.bench), "--device=cuda", "--model=cls", "--steps=1"],
                    program.environment, TURN_SECONDS, log)
        if probe is None:
            print(f"lab.py: no GPU that dtrain can use, see {options.log}", file=sys.stderr)
            return NO_GPU
        lab = Lab(options, log)
        if options.before and "before" in options.only:
            lab.before(program, Program.of_bundle(options.before.resolve()), options.precision)
        for experiment in EXPERIMENTS:
            if experiment.name in options.only:
                lab.experiment(experiment, program, options.precision)
    print(f"\n== summary: at least {LEAST_GAIN - 1:.0%} and no turn in common make a way faster")
    for name, model, times, result in lab.rows:
        medians = [statistics.median(ms) if ms else None for ms in times.values()]
        ratio = f"{medians[0] / medians[1]:.3f}" if None not in medians else "-"
        print(f"{name:12} {model:11} {' : '.join(times):24} {ratio:>7}  {result}")
    if options.json:
        options.json.write_text(json.dumps(
            [{"experiment": name, "model": model, "ms": times, "result": result}
             for name, model, times, result in lab.rows], indent=1) + "\n")
    if lab.failed:
        return 1
    return 3 if lab.missed else 0


if __name__ == "__main__":
    sys.exit(main())
