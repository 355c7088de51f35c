#!/usr/bin/env python3
# network_table.py - training steps over slow networks, measured and as dtrain plan predicts them.
# SPDX-License-Identifier: Apache-2.0
"""Runs nmt_train with 2 + 2 ranks on two hosts made of network namespaces (tests/testing/
two_hosts.sh), joined by a cable limited to 1 Gb/s and to 200 Mb/s, for {flat, hierarchical} x
{fp32, bf16} x {1, 4 micro-batches} x {whole gradients, PowerSGD}, and exchange_bench for what
overlap hides. Needs root, iproute2, openssh-server and mpirun.

    tools/bench/network_table.py --build=build/cpu --output=network_table
    tools/bench/network_table.py --build=build/cpu --smoke      # a few steps of four of the ways

Writes OUTPUT.json and OUTPUT.md. Machines change their speed from minute to minute, so all ways are
run in turns, --passes times: a step time is the median over passes of the medians of
metrics/steps.jsonl, after two updates of warm-up each. MB/s per node are the bytes that host a's card
sent in the run, less those of the start, per update and by the step time. dtrain plan gets the speeds
that dtrain doctor measured on the same cable, the compute times of runs with 1 and 4 micro-batches
whose ranks learn alone (trainer.sync_every), and what overlap hides of a way's exchange where the
ranks keep the cores busy, as they do here: four ranks share one machine. All are medians of runs
before, between and after the passes, for one alone is off by up to half. (Runs that exchange over a
cable without limit are no measure of computing: their exchange takes the ranks' cores.) Wants the machine for itself:
about 25 minutes at 1 Gb/s, 20 at 200 Mb/s with --passes=1 --steps=8.
"""

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOSTS = ROOT / "tests/testing/two_hosts.sh"
SAMPLES = ROOT / "examples/nmt_train/data"
SKIPPED = 77


class Hosts:
    """Hosts a and b, up as long as this object is entered."""

    def __init__(self, folder):
        self.state = str(Path(folder) / "hosts")

    def __enter__(self):
        up = subprocess.run([HOSTS, "up", self.state], capture_output=True, text=True)
        if up.returncode != 0:
            print(up.stdout + up.stderr, end="", file=sys.stderr)
            sys.exit(up.returncode)
        return self

    def __exit__(self, *_):
        subprocess.run([HOSTS, "down", self.state], check=False)

    def rate(self, rate):
        """As tc says it ("1gbit"); None is no limit."""
        subprocess.run([HOSTS, "rate", self.state, "off"], stderr=subprocess.DEVNULL, check=False)
        if rate:
            subprocess.run([HOSTS, "rate", self.state, rate], check=True)

    def on_a(self, command):
        done = subprocess.run([HOSTS, "on", self.state, "a", *map(str, command)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def sent_bytes(self):
        """That host a's card has sent so far."""
        for line in self.on_a(["cat", "/proc/net/dev"]).splitlines():
            name, _, numbers = line.partition(":")
            if name.strip() == "eth0":
                return int(numbers.split()[8])
        raise RuntimeError("host a has no eth0")

    def mpirun(self, program, environment=None):
        """2 + 2 ranks, each with one thread."""
        flags = ["--allow-run-as-root", "-n", "4", "-H", "a:2,b:2", "-x", "OMP_NUM_THREADS=1"]
        for name, value in (environment or {}).items():
            flags += ["-x", f"{name}={value}"]
        return self.on_a(["mpirun", *flags, *program])


class Way:
    def __init__(self, algorithm, wire, accumulation, rank):
        self.algorithm, self.wire = algorithm, wire
        self.accumulation, self.rank = accumulation, rank

    @property
    def name(self):
        name = f"{self.algorithm} {self.wire}"
        if self.accumulation > 1:
            name += f", {self.accumulation} micro-batches"
        return name + (f", PowerSGD {self.rank}" if self.rank else "")


def medians(reports):
    """Of reports of one form, number by number."""
    first = reports[0]
    if isinstance(first, dict):
        return {key: medians([report[key] for report in reports]) for key in first}
    if isinstance(first, list):
        same = all(len(report) == len(first) for report in reports)
        return [medians(of) for of in zip(*reports)] if same else first
    if all(report == first for report in reports) or not isinstance(first, (int, float)):
        return first
    return statistics.median(reports)


def hidden_size(smoke):
    return 64 if smoke else 256


def all_ways(args):
    if args.smoke:
        choices = [("flat", "fp32", 1), ("hierarchical", "fp32", 1), ("hierarchical", "bf16", 1),
                   ("hierarchical", "bf16", 4)]
    else:
        choices = itertools.product(("flat", "hierarchical"), ("fp32", "bf16"), (1, 4))
    return [Way(*choice, rank) for choice in choices for rank in (0, args.power_sgd_rank)]


class Bench:
    def __init__(self, args, hosts, folder):
        self.args, self.hosts, self.folder = args, hosts, Path(folder)
        self.bin = Path(args.build).resolve() / "bin"
        self.runs = 0
        small = args.smoke
        self.steps = 6 if small else args.steps
        self.hidden, self.layers = hidden_size(small), 1 if small else 3
        self.tokens = args.tokens  # per update, of one micro-batch on each rank

    def prepare(self):
        self.data = self.folder / "data"
        subprocess.run([self.bin / "dtrain", "prepare", self.data,
                        f"--train_tsv={SAMPLES / 'train.en-de.tsv.gz'}",
                        f"--dev_tsv={SAMPLES / 'dev.en-de.tsv.gz'}",
                        "--max_length=60", f"--vocab_size={1000 if self.args.smoke else 8000}"],
                       check=True, stdout=subprocess.DEVNULL)
        self.parameters = self.plan_of("--step_seconds=1")["parameters"]

    def config(self, way, alone=False):
        """nmt_train's arguments; dtrain plan takes those of the model as well."""
        model = [f"model.encoder_layers={self.layers}", f"model.decoder_layers={self.layers}",
                 f"model.hidden_size={self.hidden}", f"model.ffn_size={4 * self.hidden}",
                 "model.num_heads=4", f"data.prepared={self.data}",
                 f"data.max_length={self.tokens // 4}",
                 f"trainer.tokens_per_batch={self.tokens * way.accumulation}",
                 # A rank's share of a micro-batch, with room for uneven sentences.
                 f"trainer.micro_batch_tokens={self.tokens // 4 * 5 // 4}",
                 f"trainer.bucket_mib={1 if self.args.smoke else 4}"]
        if alone:
            model.append(f"trainer.sync_every={self.steps}")
        if way.rank:
            model += [f"trainer.power_sgd_rank={way.rank}", "trainer.power_sgd_start=0"]
        return model

    def records(self, way, steps, alone=False):
        """Of the updates after the first two, and bytes host a sent. Ranks `alone` share nothing but
        the last update."""
        self.runs += 1
        run_dir = self.folder / f"run-{self.runs}"
        before = self.hosts.sent_bytes()
        self.hosts.mpirun(
            [self.bin / "nmt_train", *self.config(way, alone), f"trainer.wire_precision={way.wire}",
             f"trainer.max_steps={steps}", "trainer.log_every=1", "trainer.eval_every=",
             "trainer.checkpoint_every=", "trainer.eval_max_sentences=1", "trainer.beam_size=1",
             "run.device=cpu", "run.progress=none", f"run.run_dir={run_dir}"],
            {"DTRAIN_ALLREDUCE": way.algorithm})
        sent = self.hosts.sent_bytes() - before
        lines = (run_dir / "metrics/steps.jsonl").read_text().splitlines()[1:]
        records = [json.loads(line) for line in lines]
        shutil.rmtree(run_dir)
        return (records[2:-1] if alone else records[2:]) or records, sent

    def train(self, way, steps):
        """Step seconds, the share of it that waits for gradients, and bytes host a sent."""
        return self.summary([self.records(way, steps)])

    @staticmethod
    def summary(results):
        def middle(field):
            return statistics.median(statistics.median(record[field] for record in records)
                                     for records, _ in results)
        return (middle("step_ms") / 1e3, middle("comm_share"),
                statistics.mean(sent for _, sent in results))

    def compute_seconds(self):
        """Of an update with one micro-batch, and of it what does not grow with more."""
        one, four = (self.summary([self.records(Way("flat", "fp32", micro_batches, 0), self.steps,
                                                alone=True)])[0] for micro_batches in (1, 4))
        return one, min(max((4 * one - four) / 3, 0.0), 0.75 * one)

    def start_bytes(self):
        """What a run sends beside its updates: weights, agreements, the evaluation."""
        way = Way("hierarchical", "fp32", 1, 0)
        short, long = (self.train(way, steps)[2] for steps in (1, self.steps))
        return max(short - (long - short) / (self.steps - 1), 0)

    def overlap(self, algorithm, wire, rank, mib, backward, spin):
        """Of as many gradients, and a backward pass as long, as the arguments say."""
        output = self.hosts.mpirun([self.bin / "exchange_bench", f"--mib={mib}",
                                    f"--backward_ms={1e3 * backward:.0f}", f"--wire={wire}",
                                    f"--spin={'true' if spin else 'false'}",
                                    f"--power_sgd_rank={rank}",
                                    f"--steps={2 if self.args.smoke else 7}", "--bucket_mib=4"],
                                   {"DTRAIN_ALLREDUCE": algorithm})
        return json.loads(output.strip().splitlines()[-1]) | {"algorithm": algorithm}

    def free_overlap(self, kind):
        """With cores to spare, of a size that tells: 40 MiB behind 0.4 s."""
        mib, backward = (2, 0.05) if self.args.smoke else (40, 0.4)
        return self.overlap(*kind, mib, backward, spin=False)

    def busy_overlap(self, kind, compute):
        """With every core busy, of the model's gradients behind its backward pass: two thirds of
        what a micro-batch computes."""
        mib = max(1, round(self.parameters * 4 / 2**20))
        return self.overlap(*kind, mib, (compute[0] - compute[1]) * 2 / 3, spin=True)

    def doctor(self):
        path = self.folder / "doctor-one.json"
        self.hosts.mpirun([self.bin / "dtrain", "doctor", f"--dir={self.folder}",
                           f"--largest_mib={1 if self.args.smoke else 16}", f"--output={path}"])
        return json.loads(path.read_text())

    def plan_of(self, *flags):
        command = [self.bin / "dtrain", "plan", *self.config(Way("flat", "fp32", 1, 0)),
                   "--nodes=2", "--ranks_per_node=2", "--json", *flags]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def plan(self, doctor, seconds, hidden):
        plan = self.plan_of(
            f"--doctor={doctor}", f"--step_seconds={seconds[0]}", f"--update_seconds={seconds[1]}",
            f"--overlap={min(max(hidden, 0.0), 1.0)}",
            f"--power_sgd_rank={self.args.power_sgd_rank}")
        return {(way["algorithm"], way["wire_bytes"], way["accumulation"],
                 way["power_sgd_rank"]): way for way in plan["ways"]}

    def rows(self, rate, ways):
        """Of the ways over a cable of this rate, what overlap hides, and the compute times."""
        self.hosts.rate(rate)
        doctors = [self.doctor()]
        start = self.start_bytes()
        kinds = sorted({(way.algorithm, way.wire, way.rank) for way in ways})
        computes = [self.compute_seconds()]
        free = [self.free_overlap(kind) for kind in kinds]
        busy = [[self.busy_overlap(kind, computes[0]) for kind in kinds]]
        passes = []
        for _ in range(self.args.passes):
            passes.append([self.records(way, self.steps) for way in ways])
            busy.append([self.busy_overlap(kind, computes[0]) for kind in kinds])
            computes.append(self.compute_seconds())
            doctors.append(self.doctor())
        doctor = self.folder / "doctor.json"
        doctor.write_text(json.dumps(medians(doctors)))
        measured = [self.summary(results) for results in zip(*passes)]
        compute = [statistics.median(times) for times in zip(*computes)]
        # The plans of all kinds of exchange, each with what was hidden of its own.
        planned = {kind: self.plan(doctor, compute,
                                   statistics.median(one["hidden"] for one in measurements))
                   for kind, measurements in zip(kinds, zip(*busy))}
        rows = []
        for way, results, (seconds, share, sent) in zip(ways, zip(*passes), measured):
            plan = planned[way.algorithm, way.wire, way.rank][
                way.algorithm, 4 if way.wire == "fp32" else 2, way.accumulation, way.rank]
            rows.append({"rate": rate, "way": way.name, "step_s": seconds, "comm_share": share,
                         "pass_step_s": [self.summary([one])[0] for one in results],
                         "mb_s_per_node": (sent - start) / self.steps / seconds / 1e6,
                         "plan_step_s": plan["seconds"],
                         "plan_mb_s_per_node": plan["network_bytes_per_second"] / 1e6,
                         "plan_limit": plan["limit"]})
            print(f"{rate}  {way.name}: {seconds:.3f} s, planned {plan['seconds']:.3f} s",
                  file=sys.stderr)
        return (rows, free + list(itertools.chain(*busy)), compute,
                {"doctors": doctors, "computes": computes})


def markdown(result):
    compute = "; ".join(f"{rate}: compute {of[0]:.3f} s, of it the update {of[1]:.3f} s"
                        for rate, of in result["compute_s"].items())
    passes = f"{result['passes']} pass{'es' if result['passes'] > 1 else ''}"
    lines = [f"2 hosts x 2 ranks, {passes} of {result['steps']} updates of "
             f"{result['tokens']} tokens (times micro-batches) each way. {compute}", "",
             "| cable | way | step | x flat fp32 | MB/s per node | plan: step | off by | plan: MB/s "
             "| limit |", "|---|---|---|---|---|---|---|---|---|"]
    for row in result["rows"]:
        first = next(r for r in result["rows"] if r["rate"] == row["rate"])
        micro_batches = int((re.search(r"(\d+) micro", row["way"]) or [0, 1])[1])
        speedup = first["step_s"] * micro_batches / row["step_s"]
        off = row["plan_step_s"] / row["step_s"] - 1
        lines.append(f"| {row['rate']} | {row['way']} | {row['step_s']:.3f} s | {speedup:.2f} | "
                     f"{row['mb_s_per_node']:.1f} | {row['plan_step_s']:.3f} s | {off:+.0%} | "
                     f"{row['plan_mb_s_per_node']:.1f} | {row['plan_limit']} |")
    lines += ["", "| cable | exchange | cores | MiB | backward | exchange | step with overlap "
              "| without | hidden |", "|---|---|---|---|---|---|---|---|---|"]
    for rate, overlaps in result["overlap"].items():
        for one in overlaps:
            cores = "busy" if one["spin"] else "free"
            low = f", PowerSGD {one['power_sgd_rank']}" if one["power_sgd_rank"] else ""
            lines.append(f"| {rate} | {one['algorithm']} {one['wire']}{low} | {cores} | "
                         f"{one['mib']} | {one['backward_s']:.3f} s | "
                         f"{one['exchange_s']:.3f} s | {one['with_overlap_s']:.3f} s | "
                         f"{one['without_overlap_s']:.3f} s | {one['hidden']:.0%} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/cpu", help="build folder, with its bin/")
    parser.add_argument("--output", default="network_table", help="path of .json and .md")
    parser.add_argument("--rates", default="1gbit,200mbit", help="of the cable, as tc says them")
    parser.add_argument("--steps", type=int, default=12, help="updates of each run")
    parser.add_argument("--passes", type=int, default=3, help="over all ways at each rate")
    parser.add_argument("--tokens", type=int, default=96,
                        help="target tokens of an update with one micro-batch, all ranks together")
    parser.add_argument("--power_sgd_rank", type=int,
                        help="without it an eighth of the model's hidden size")
    parser.add_argument("--smoke", action="store_true", help="small, few steps, one rate")
    args = parser.parse_args()
    if args.power_sgd_rank is None:
        args.power_sgd_rank = hidden_size(args.smoke) // 8
    if args.smoke:
        args.passes = 1
    if os.geteuid() != 0:
        print("skipped: network namespaces need root")
        return SKIPPED
    rates = args.rates.split(",")[-1:] if args.smoke else args.rates.split(",")
    ways = all_ways(args)
    with tempfile.TemporaryDirectory(prefix="network-table-") as folder, Hosts(folder) as hosts:
        bench = Bench(args, hosts, folder)
        bench.prepare()
        result = {"steps": bench.steps, "passes": args.passes, "tokens": args.tokens,
                  "compute_s": {}, "rows": [], "overlap": {}, "inputs": {}}
        for rate in rates:
            (rows, result["overlap"][rate], result["compute_s"][rate],
             result["inputs"][rate]) = bench.rows(rate, ways)
            result["rows"] += rows
    Path(args.output + ".json").write_text(json.dumps(result, indent=1) + "\n")
    table = markdown(result)
    Path(args.output + ".md").write_text(table)
    print(table, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
