#!/usr/bin/env python3
# peer_step.py - times training steps of dtrain and of PyTorch side by side, in one run.
# SPDX-License-Identifier: Apache-2.0
"""Runs `dtrain_step_bench` and a PyTorch step of the same model in turns (A B A B ...), each in a
process of its own, and prints milliseconds, tokens/s, GFLOP/s, peak memory and the ratios.

    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install torch
    python3 tools/bench/peer_step.py --python=/tmp/peer/bin/python \
        --bench=build/cpu/bin/dtrain_step_bench --threads=1,2 --precisions=fp32,bf16

The models, alike on both sides; vocabulary 8000, d 256, 4 heads, ffn 1024, learned positions,
dropout 0.1 on residuals, attention and activation, Adam, every sequence of full length:
  cls      encoder of 4 layers, gelu, post-norm, 32 x 128 tokens, 4 classes from the first token
  seq2seq  3 + 3 layers, relu, post-norm, 64 pairs of 32 + 32 tokens, output matrix not tied,
           label smoothing 0.1
A step is forward, backward and update; with --pass=eval a forward pass alone, without dropout (in
PyTorch under inference_mode). --lengths=real gives dtrain packed batches of real lengths (mean half
of the longest), --lengths=FILE of lengths drawn from those in a file, one a line (the tokens of a data
set's texts), where PyTorch computes the padded ones. GFLOP are those of matrix products, backward counted as
twice the forward. tokens/s counts target tokens in seq2seq. PyTorch's bf16 is autocast.

PyTorch runs at its best here: scaled_dot_product_attention, one matrix for q, k and v, fused
Adam, and a malloc that keeps its pages (--peer=plain leaves malloc alone; --peer=compile adds
torch.compile). Peak memory of PyTorch includes its libraries: `rss import` is what they take
before any model exists. The bench binary takes --model --threads --precision --steps and prints
one line of JSON with ms_median, tokens_s, gflops and rss_mb, as this file's --worker does. Where
it also has cpu_ms_median, processor time is compared too: other programs disturb it less.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import peer_model

SIZES = {name: peer_model.MODELS[name] for name in ("cls", "seq2seq")}


def peak_rss_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def worker(args):
    """Times the PyTorch step in this process and prints one line of JSON."""
    import torch

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    rss_import = peak_rss_mb()
    sizes = SIZES[args.model]
    training = args.phase == "train"
    model = peer_model.build_peer(sizes, args.dropout).train(training)
    run = torch.compile(model) if args.peer == "compile" else model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    batch, length = sizes.sequences, sizes.length

    def draw():
        ids = [torch.randint(sizes.vocab, (batch, length)) for _ in range(3)]
        if sizes.decoder:
            return ids
        return [ids[0], ids[1], torch.randint(peer_model.CLASSES, (batch,))]

    def evaluate(data):
        with torch.inference_mode(), \
                torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            return run(*data).item()

    def train(data):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            loss = run(*data)
        loss.backward()
        optimizer.step()
        return loss.item()

    step = train if training else evaluate
    for _ in range(3):
        step(draw())
    wall, cpu = [], []
    for _ in range(args.steps):
        data = draw()
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        loss = step(data)
        wall.append(time.perf_counter() - wall_start)
        cpu.append(time.process_time() - cpu_start)
    median = statistics.median(wall)
    print(json.dumps({
        "ms_median": median * 1e3,
        "ms_min": min(wall) * 1e3,
        "cpu_ms_median": statistics.median(cpu) * 1e3,
        "tokens_s": batch * length / median,
        "gflops": peer_model.step_flop(sizes) / (1 if training else 3) / median / 1e9,
        "rss_mb": peak_rss_mb(),
        "rss_import_mb": rss_import,
        "loss": loss,
        "torch": torch.__version__,
    }))


def run_json(command, threads, keep_pages):
    """Runs one process and returns the JSON object on its last line of output."""
    env = dict(os.environ)
    for key in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        env[key] = str(threads)
    if keep_pages:
        # Otherwise glibc gives every large tensor back to the kernel and faults it in again.
        env["MALLOC_MMAP_THRESHOLD_"] = env["MALLOC_TRIM_THRESHOLD_"] = str(4 << 30)
        env["MALLOC_TOP_PAD_"] = str(64 << 20)
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        sys.exit(f"{' '.join(command)}\nexited {done.returncode}:\n{done.stderr[-2000:]}")
    try:
        return json.loads(lines[-1])
    except ValueError:
        sys.exit(f"{' '.join(command)}\nprinted no JSON on its last line: {lines[-1][:200]}")


def measure(args, model, threads, precision):
    """Runs both sides in turns; returns {side: [one JSON object a round]}."""
    common = [f"--model={model}", f"--threads={threads}", f"--precision={precision}",
              f"--steps={args.steps}", f"--pass={args.phase}"]
    peer = [args.python, str(Path(__file__).resolve()), "--worker", f"--peer={args.peer}",
            f"--dropout={args.dropout}"]
    sides = {"peer": (peer + common, args.peer != "plain")}
    if args.bench:
        ours = [args.bench, *common, f"--lengths={args.lengths}"]
        sides = {"dtrain": (ours, False)} | sides
    found = {side: [] for side in sides}
    for _ in range(args.rounds):
        for side, (command, keep_pages) in sides.items():
            found[side].append(run_json(command, threads, keep_pages))
    return found


def middle(runs, key):
    values = [run[key] for run in runs if key in run]
    return statistics.median(values) if values else math.nan


def print_side(case, side, runs):
    spread = f"{min(r['ms_median'] for r in runs):.0f}-{max(r['ms_median'] for r in runs):.0f}"
    imported = middle(runs, "rss_import_mb")
    note = "" if math.isnan(imported) else f"  (rss import {imported:.0f})"
    print(f"{case:22} {side:7} {middle(runs, 'ms_median'):8.1f} {spread:>12} "
          f"{middle(runs, 'cpu_ms_median'):8.1f} {middle(runs, 'tokens_s'):9.0f} "
          f"{middle(runs, 'gflops'):8.1f} {middle(runs, 'rss_mb'):8.0f}{note}", flush=True)


def print_ratios(found):
    """Speed and memory of dtrain against the peer, each round against its neighbour."""
    print(f"\n{'ratio':22} {'speed':>7} {'of fp32':>8} {'cpu':>6} {'memory':>7}")
    for (model, threads, precision), sides in found.items():
        ours, peer = sides["dtrain"], sides["peer"]
        speed = statistics.median(
            p["ms_median"] / o["ms_median"] for o, p in zip(ours, peer))
        fp32 = found.get((model, threads, "fp32"))
        of_fp32 = math.nan if fp32 is None else (
            middle(fp32["peer"], "ms_median") / middle(ours, "ms_median"))
        cpu = middle(peer, "cpu_ms_median") / middle(ours, "cpu_ms_median")
        memory = middle(ours, "rss_mb") / middle(peer, "rss_mb")
        print(f"{f'{model} x{threads} {precision}':22} {speed:7.2f} {of_fp32:8.2f} {cpu:6.2f} "
              f"{memory:7.2f}")
    print("speed: peer's time / ours in the same precision; of fp32: peer's fp32 time / ours;\n"
          "cpu: as speed, in processor time; memory: our peak / the peer's peak")


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", help="dtrain_step_bench; without it the peer runs alone")
    parser.add_argument("--python", default=sys.executable, help="a python that has torch")
    parser.add_argument("--peer", choices=["best", "plain", "compile"], default="best")
    parser.add_argument("--models", default="cls,seq2seq")
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--pass", dest="phase", choices=["train", "eval"], default="train")
    parser.add_argument("--lengths", default="fixed", help="of dtrain: fixed, real or a file of them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8, help="timed steps of each process")
    parser.add_argument("--dropout", type=float, default=0.1, help="of the peer")
    parser.add_argument("--json", help="also write all that was measured to this file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--model", choices=list(SIZES), help=argparse.SUPPRESS)
    parser.add_argument("--precision", choices=["fp32", "bf16"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        args.threads = int(args.threads)
    elif args.bench and not os.access(args.bench, os.X_OK):
        parser.error(f"--bench={args.bench} is no program: build dtrain_step_bench first")
    unknown = set(args.models.split(",")) - set(SIZES)
    if unknown:
        parser.error(f"--models: unknown {', '.join(sorted(unknown))}; known: {', '.join(SIZES)}")
    return args


def main():
    args = parse()
    if args.worker:
        worker(args)
        return
    print(f"{'model x threads':22} {'side':7} {'ms':>8} {'range':>12} {'cpu ms':>8} "
          f"{'tokens/s':>9} {'GFLOP/s':>8} {'peak MB':>8}")
    found = {}
    for model in args.models.split(","):
        for threads in (int(n) for n in args.threads.split(",")):
            for precision in args.precisions.split(","):
                sides = measure(args, model, threads, precision)
                for side, runs in sides.items():
                    print_side(f"{model} x{threads} {precision}", side, runs)
                found[model, threads, precision] = sides
    if args.bench:
        print_ratios(found)
    if args.json:
        rows = [dict(model=m, threads=t, precision=p, **s) for (m, t, p), s in found.items()]
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")
    print(f"PyTorch {found[next(iter(found))]['peer'][0]['torch']}, {args.peer}; "
          f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
