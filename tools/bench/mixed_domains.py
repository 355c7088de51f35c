#!/usr/bin/env python3
# mixed_domains.py - trains on one field, goes on with another, alone and mixed; prints BLEU of both.
# SPDX-License-Identifier: Apache-2.0
"""Does a translator forget its first field when it is trained on with the texts of another?

    tools/bench/mixed_domains.py --first captions/train captions/test --second help/train help/test

Each name is a prefix: captions/train stands for captions/train.en and captions/train.de. A first run trains
on the first field. Three runs begin with its weights and train on for --further updates: on the second field
alone, and on both by data.sources, with the weights of --shares for the second field (the first one's is 1).
Prints a Markdown table of BLEU on both test sets. Nothing is held out for measuring, so that no test decides
which checkpoint counts: the last one of each run does. The vocabulary is learned from the first field, and
bytes spell what it lacks.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
TINY = ["model.encoder_layers=1", "model.decoder_layers=1", "model.hidden_size=32", "model.ffn_size=64",
        "model.num_heads=2", "data.vocab_size=1000", "trainer.tokens_per_batch=256"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", nargs=2, required=True, metavar=("TRAIN", "TEST"), help="prefixes")
    parser.add_argument("--second", nargs=2, required=True, metavar=("TRAIN", "TEST"), help="prefixes")
    parser.add_argument("--languages", nargs=2, default=["en", "de"], help="suffixes of source and target")
    parser.add_argument("--build", default=PROJECT / "build/cpu", type=pathlib.Path)
    parser.add_argument("--config", default=PROJECT / "examples/nmt_train/configs/demo.textproto")
    parser.add_argument("--steps", type=int, default=3000, help="updates of the first run")
    parser.add_argument("--further", type=int, default=1000, help="updates of the others")
    parser.add_argument("--rate", default="1e-3", help="learning rate of the others")
    parser.add_argument("--shares", nargs="+", default=["1", "3"], help="weights of the second field in the mix")
    parser.add_argument("--beam", default="4")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--folder", help="keep the runs here")
    parser.add_argument("--smoke", action="store_true", help="a tiny model, a few updates")
    return parser.parse_args()


class Bench:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder

    def call(self, *command):
        command = [str(word) for word in command]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def train(self, name, steps, *settings):
        arguments = self.arguments
        run = self.folder / name
        launcher = ["mpirun", "--oversubscribe", "-n", arguments.ranks] if arguments.ranks > 1 else []
        self.call(*launcher, arguments.build / "bin/nmt_train", f"--config={arguments.config}", f"--run_dir={run}",
                  "data.train_tsv=", "data.dev_tsv=", "data.test_tsv=", "data.hold_out_dev=0", "data.hold_out_test=0",
                  f"data.source_language={arguments.languages[0]}", f"data.target_language={arguments.languages[1]}",
                  "data.byte_fallback=true", "trainer.max_time=", "trainer.eval_every=", "trainer.checkpoint_every=",
                  f"trainer.max_steps={steps}", f"trainer.seed={arguments.seed}", "run.progress=none",
                  *(TINY if arguments.smoke else []), *settings)
        return run

    def bleu(self, run, test):
        source, target = self.arguments.languages
        printed = self.call(self.arguments.build / "bin/dtrain", "eval", run / "ckpt/last",
                            f"--source={test}.{source}", f"--reference={test}.{target}",
                            f"--beam_size={self.arguments.beam}", "--json")
        return json.loads(printed)["bleu"]

    def row(self, name, run):
        scores = [self.bleu(run, test) for test in (self.arguments.first[1], self.arguments.second[1])]
        print(f"| {name} | {scores[0]:.2f} | {scores[1]:.2f} |", flush=True)


def main():
    arguments = parse_arguments()
    steps, further = (8, 4) if arguments.smoke else (arguments.steps, arguments.further)
    # Paths in settings are relative to the working directory, as these are.
    first, second = arguments.first[0], arguments.second[0]
    warm_up = ["optimizer.warmup_steps=2"] if arguments.smoke else []
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(arguments, pathlib.Path(arguments.folder or scratch))
        print(f"{steps} updates on {first}, then {further} further ones\n")
        print(f"| run | BLEU of {arguments.first[1]} | BLEU of {arguments.second[1]} |")
        print("|---|---|---|", flush=True)
        start = bench.train("first", steps, f"data.train_prefix={first}", "optimizer.schedule=linear", *warm_up)
        bench.row("the first field", start)
        go_on = [f"--init={start / 'ckpt/last'}", "optimizer.schedule=linear",
                 f"optimizer.learning_rate={arguments.rate}", f"optimizer.warmup_steps={min(100, further // 4)}"]
        bench.row("then the second alone", bench.train("alone", further, f"data.train_prefix={second}", *go_on))
        for share in arguments.shares:
            sources = f'data.sources=[{{prefix: "{first}"}}, {{prefix: "{second}" weight: {share}}}]'
            bench.row(f"then both, weights 1 and {share}", bench.train(f"mixed-{share}", further, sources, *go_on))


if __name__ == "__main__":
    main()
