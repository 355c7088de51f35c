#!/usr/bin/env python3
# peer_translate.py - times translating with dtrain and with CTranslate2 side by side, in one run.
# SPDX-License-Identifier: Apache-2.0
"""Both translate the same lines with the same weights in turns (A B A B ...), each in a process of its own;
prints sentences/s of both, the ratio, and BLEU.

    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install torch transformers ctranslate2 sentencepiece
    python3 tools/bench/peer_translate.py --python=/tmp/peer/bin/python --dtrain=build/cpu/bin/dtrain \\
        --run=runs/demo --source=test.en --reference=test.de

The run is exported (`dtrain export-hf`) and converted by ct2-transformers-converter. Times are of
tokenizing, translating and detokenizing all lines with a loaded model. CTranslate2 sorts the lines by length
itself and fills batches with --batch_tokens tokens, as dtrain does; its length penalty has another formula
with the same exponent. --types=float32,int8 are CTranslate2's; dtrain computes in --precision.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def read_lines(path):
    return Path(path).read_text(encoding="utf-8").split("\n")[:-1]


def worker(args):
    """Translates with CTranslate2 and prints one line of JSON."""
    import ctranslate2
    from tokenizers import Tokenizer

    lines = read_lines(args.source)
    tokenizer = Tokenizer.from_file(f"{args.folder}/tokenizer.json")
    translator = ctranslate2.Translator(
        f"{args.folder}/ct2-{args.type}", device="cpu", compute_type=args.type,
        inter_threads=1, intra_threads=args.threads)

    def translate(texts):
        encoded = tokenizer.encode_batch(texts)
        results = translator.translate_batch(
            [e.tokens for e in encoded], beam_size=args.beam, length_penalty=args.alpha,
            max_batch_size=args.batch_tokens, batch_type="tokens",
            max_decoding_length=max(len(e.ids) for e in encoded) + 50)
        ids = [[tokenizer.token_to_id(t) for t in r.hypotheses[0]] for r in results]
        return tokenizer.decode_batch(ids)

    translate(lines[:32])
    started = time.perf_counter()
    translations = translate(lines)
    seconds = time.perf_counter() - started
    Path(args.output).write_text("\n".join(translations) + "\n", encoding="utf-8")
    print(json.dumps({"sentences_s": len(lines) / seconds, "peer": ctranslate2.__version__}))


def run(command, threads):
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nexited {done.returncode}:\n{done.stderr[-2000:]}")
    return done


def time_dtrain(args, threads, beam, output):
    done = run([args.dtrain, "translate", args.run, f"--input={args.source}", f"--output={output}",
                f"--beam_size={beam}", f"--alpha={args.alpha}", f"--threads={threads}", "--verbose",
                f"--batch_tokens={args.batch_tokens}", f"--precision={args.precision}",
                f"--window={len(read_lines(args.source))}"], threads)
    return float(re.search(r"([0-9.]+) lines/s", done.stderr)[1])


def time_peer(args, folder, threads, beam, kind, output):
    done = run([args.python, str(Path(__file__).resolve()), "--worker", f"--folder={folder}",
                f"--source={args.source}", f"--output={output}", f"--type={kind}",
                f"--threads={threads}", f"--beams={beam}", f"--alpha={args.alpha}",
                f"--batch_tokens={args.batch_tokens}"], threads)
    return json.loads(done.stdout.strip().splitlines()[-1])["sentences_s"]


def bleu(args, output):
    if not args.reference:
        return float("nan")
    done = run([args.dtrain, "eval", f"--hypothesis={output}", f"--reference={args.reference}",
                "--json"], 1)
    return json.loads(done.stdout)["bleu"]


def convert(args, folder, types):
    run([args.dtrain, "export-hf", args.run, folder], 1)
    converter = str(Path(args.python).parent / "ct2-transformers-converter")
    for kind in types:
        run([converter, "--model", folder, "--output_dir", f"{folder}/ct2-{kind}",
             "--quantization", kind], 1)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtrain", help="the program")
    parser.add_argument("--python", default=sys.executable, help="a python that has ctranslate2")
    parser.add_argument("--run", help="run directory of nmt_train")
    parser.add_argument("--source", required=True, help="lines to translate")
    parser.add_argument("--reference", help="their translations, for BLEU")
    parser.add_argument("--types", default="float32,int8", help="of CTranslate2")
    parser.add_argument("--precision", default="fp32", help="of dtrain")
    parser.add_argument("--beams", default="1,4")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--alpha", type=float, default=0.6)
    parser.add_argument("--batch_tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    for name in ("folder", "output", "type"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        args.threads, args.beam = int(args.threads), int(args.beams)
    elif not (args.dtrain and args.run):
        parser.error("--dtrain and --run are needed")
    return args


def main():
    args = parse()
    if args.worker:
        worker(args)
        return
    types = args.types.split(",")
    with tempfile.TemporaryDirectory() as folder:
        convert(args, folder, types)
        output = f"{folder}/out"
        print(f"{'beam':>4} {'threads':>7} {'side':>10} {'sentences/s':>12} {'range':>15} "
              f"{'BLEU':>6} {'ratio':>6}")
        for beam in args.beams.split(","):
            for threads in args.threads.split(","):
                found = {side: [] for side in ["dtrain", *types]}
                scores = {}
                for _ in range(args.rounds):
                    found["dtrain"].append(time_dtrain(args, threads, beam, output))
                    scores["dtrain"] = bleu(args, output)
                    for kind in types:
                        found[kind].append(time_peer(args, folder, threads, beam, kind, output))
                        scores[kind] = bleu(args, output)
                for side, rates in found.items():
                    ratio = statistics.median(a / b for a, b in zip(found["dtrain"], rates))
                    print(f"{beam:>4} {threads:>7} {side:>10} {statistics.median(rates):12.1f} "
                          f"{f'{min(rates):.0f}-{max(rates):.0f}':>15} {scores[side]:6.2f} "
                          f"{ratio:6.2f}", flush=True)
    print("ratio: dtrain's speed by that side's, median of the rounds")


if __name__ == "__main__":
    main()
