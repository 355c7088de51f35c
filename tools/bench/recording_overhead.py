#!/usr/bin/env python3
# recording_overhead.py - times updates of a run that records everything and of one that does not, in turns.
# SPDX-License-Identifier: Apache-2.0
"""What does it cost that a run answers for itself?

    tools/bench/recording_overhead.py --ranks 1 2

Trains a translator on made-up texts: with samples of the host, norms, values per row, training sample and
reports, and with all of these off, in turns, so that a machine that becomes slower is slower for both. A
round's time is the mean of its updates, without the first fifth and without evaluations, from
metrics/steps.jsonl. Prints a Markdown table: the median of the rounds, and the median of the differences of
neighbours with its standard error; then the same of the processor time of whole runs, with evaluations, the
training sample and reports. Where other programs work, too, that one is the steadier of both; with several ranks
it is mostly waiting, as MPI waits busily. Times of phases cannot be turned off: two readings of a clock for each.
"""
import argparse
import json
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
OFF = ["run.report=false", "run.details=false", "run.sample_seconds=0"]
SHAPE = ["model.encoder_layers=2", "model.decoder_layers=2", "model.hidden_size=128", "model.ffn_size=512",
         "model.num_heads=4", "data.vocab_size=400"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=PROJECT / "build/cpu", type=pathlib.Path)
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7, help="pairs of runs")
    parser.add_argument("--steps", type=int, default=400, help="updates of a run")
    parser.add_argument("--tokens", type=int, default=2048, help="target tokens of an update")
    parser.add_argument("--smoke", action="store_true", help="a few updates, to see that it runs")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rounds, arguments.steps, arguments.tokens = 1, 20, 128
    return arguments


def write_texts(folder, name, pairs, seed):
    words = [f"w{i}" for i in range(200)]
    draw = random.Random(seed)
    for language in ("en", "de"):
        draw.seed(seed)  # the same lengths and words on both sides: there is something to learn
        lines = [" ".join(draw.choice(words) for _ in range(draw.randint(5, 25))) for _ in range(pairs)]
        (folder / f"{name}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def train(arguments, ranks, folder, name, settings):
    run = folder / name
    command = [str(arguments.build / "bin/nmt_train"), *SHAPE, f"--run_dir={run}", "run.progress=none",
               f"data.train_source={folder}/train.en", f"data.train_target={folder}/train.de",
               f"data.dev_source={folder}/dev.en", f"data.dev_target={folder}/dev.de",
               f"trainer.max_steps={arguments.steps}", f"trainer.tokens_per_batch={arguments.tokens}",
               f"trainer.eval_every={max(1, arguments.steps // 4)}u", "trainer.eval_max_sentences=50",
               "trainer.beam_size=1", "trainer.checkpoint_every=", *settings]
    if ranks > 1:
        command = ["mpirun", "--oversubscribe", "-n", str(ranks), *command]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    lines = (run / "metrics/steps.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    records = [json.loads(line) for line in lines]
    records = [record for record in records if record["step"] > arguments.steps // 5]
    processor = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return statistics.mean(record["step_ms"] for record in records), processor


def difference(on, off):
    shares = [100.0 * (with_it / without - 1.0) for with_it, without in zip(on, off)]
    error = statistics.stdev(shares) / len(shares) ** 0.5 if len(shares) > 1 else float("nan")
    medians = f"{statistics.median(on):.2f} | {statistics.median(off):.2f}"
    return f"{medians} | {statistics.median(shares):+.2f} % ± {error:.2f}"


def measure(arguments, ranks, folder):
    on, off = [], []
    for number in range(arguments.rounds):
        # Who comes first takes turns, too.
        order = [(on, []), (off, OFF)] if number % 2 == 0 else [(off, OFF), (on, [])]
        for times, settings in order:
            times.append(train(arguments, ranks, folder, f"{ranks}-{number}-{len(settings)}", settings))
    return [difference([time[i] for time in on], [time[i] for time in off]) for i in range(2)]


def main():
    arguments = parse_arguments()
    print("| ranks | measured | recording | not recording | difference |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_texts(folder, "train", 5000, 1)
        write_texts(folder, "dev", 100, 2)
        for ranks in arguments.ranks:
            updates, processor = measure(arguments, ranks, folder)
            print(f"| {ranks} | ms an update | {updates} |", flush=True)
            print(f"| {ranks} | processor seconds of a run | {processor} |", flush=True)


if __name__ == "__main__":
    main()
