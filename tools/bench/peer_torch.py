#!/usr/bin/env python3
# peer_torch.py - times training steps of dtrain and of PyTorch on one GPU, and prints the ratios.
# SPDX-License-Identifier: Apache-2.0
"""Runs `dtrain_step_bench --device=cuda` and PyTorch steps of the same model in turns, each in a process
of its own, and prints milliseconds, tokens/s, TFLOP/s, device memory and how many times faster dtrain is.

    tools/bench/peer_torch.py --bench=build/cuda/bin/dtrain_step_bench
    tools/bench/peer_torch.py --bench=... --models=bert_base --peers=eager,compile --gelu=tanh

Models: those of dtrain_step_bench; alike on both sides in sizes, dropout, activation and loss. PyTorch
runs under autocast (bf16, fp16 with a GradScaler) with fused AdamW. Its attention is
scaled_dot_product_attention with the fastest of its backends that takes the case, tried one by one; the
last column names those that a profile of one step found running. cuDNN's rounds dropout to a sixteenth.
  eager, compile, reduce-overhead, max-autotune   the model of peer_model.py, plain or by torch.compile
  hf, hf-compile              Hugging Face's BertForSequenceClassification or MarianMTModel
  varlen, varlen-compile      the model of peer_model.py on packed sequences: jagged nested tensors
--all_lengths=real draws lengths as sentences have them: dtrain packs them, PyTorch pads to the longest and
masks, as its users do; that ratio is a column of its own and no measure of the kernels. Beside it is the
ratio to PyTorch on packed sequences, where it can (its attention then is that of nested tensors).

Times are medians over blocks of 10 steps, each block ended by one wait for the device; the spread is the
distance between the quartiles. tokens/s of real lengths count tokens that are no padding. --smoke tries
the script where there is no GPU: models of the same kinds, tiny, two steps each on the CPU; it fails where
a side does.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import peer_model

BLOCK = 10
PEERS = ("eager", "compile", "reduce-overhead", "max-autotune", "hf", "hf-compile", "varlen",
         "varlen-compile")
SMOKE = dict(device="cpu", precisions="fp32", peers="eager,hf,varlen", rounds=1, steps=2, warm_up=1)
BACKENDS = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
# Parts of the names that a backend's operators and kernels have in a profile. A step that repeats a CUDA
# graph shows kernels alone.
TRACES = {"FLASH_ATTENTION": ("dot_product_flash_attention", "flash_fwd"),
          "EFFICIENT_ATTENTION": ("dot_product_efficient_attention", "fmha_cutlass"),
          "CUDNN_ATTENTION": ("dot_product_cudnn_attention", "cudnn_generated_fort_native_sdpa"),
          "MATH": ("dot_product_attention_math",)}


def draw_lengths(sizes, real, torch):
    """As DrawLengths of dtrain_step_bench: full, or a hump at half the longest."""
    if not real:
        return torch.full((sizes.sequences,), sizes.length)
    draws = torch.randint(sizes.length - 1, (2, sizes.sequences))
    return 2 + draws.sum(0) // 2


def make_batch(sizes, args, torch):
    """Tensors on the device, and how many tokens are no padding."""
    shape = (sizes.sequences, sizes.length)
    positions = torch.arange(sizes.length)
    sides = [draw_lengths(sizes, args.lengths == "real", torch) for _ in range(2 if sizes.decoder else 1)]
    inside = [positions[None, :] < lengths[:, None] for lengths in sides]
    source, shifted, labels = (torch.randint(sizes.vocab, shape) for _ in range(3))
    if sizes.decoder:
        labels = labels.masked_fill(~inside[1], -100)
    else:
        labels = torch.randint(peer_model.CLASSES, (sizes.sequences,))
    mask = inside[0][:, None, None, :] if args.lengths == "real" else None
    batch = [source, shifted, labels, mask]
    tokens = int(inside[-1].sum())

    def move(tensor):
        return None if tensor is None else tensor.to(args.device, non_blocking=True)

    if not args.peer.startswith("varlen"):
        return [move(t) for t in batch], tokens
    batch, sides = packed_batch(batch, inside, torch)
    for side in sides:
        side.offsets, side.positions = move(side.offsets), move(side.positions)
    return [*(move(t) for t in batch), sides], tokens


def packed_batch(batch, inside, torch):
    """The same batch without its padding, and its two sides' Packed."""
    def side(mask):
        lengths = mask.sum(1)
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        return peer_model.Packed(offsets, mask.nonzero()[:, 1], int(lengths.min()), int(lengths.max()))

    source, shifted, labels, _ = batch
    if len(inside) > 1:
        shifted, labels = shifted[inside[1]], labels[inside[1]]
    sides = [side(mask) for mask in inside]
    return [source[inside[0]], shifted, labels, None], (sides[0], sides[-1])


def marian(sizes, args):
    import torch.nn.functional as F
    from torch import nn
    from transformers import MarianConfig, MarianMTModel
    config = MarianConfig(
        vocab_size=sizes.vocab, d_model=sizes.hidden, encoder_layers=sizes.encoder,
        decoder_layers=sizes.decoder, encoder_attention_heads=sizes.heads,
        decoder_attention_heads=sizes.heads, encoder_ffn_dim=sizes.ffn, decoder_ffn_dim=sizes.ffn,
        activation_function="relu", dropout=args.dropout, attention_dropout=args.dropout,
        activation_dropout=args.dropout, scale_embedding=True, tie_word_embeddings=False,
        max_position_embeddings=512, pad_token_id=0, eos_token_id=0, decoder_start_token_id=0)
    config._attn_implementation = "sdpa"

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.marian = MarianMTModel(config)

        def forward(self, source, shifted, labels, mask=None):
            attention_mask = None if mask is None else mask[:, 0, 0, :].long()
            logits = self.marian(input_ids=source, attention_mask=attention_mask,
                                 decoder_input_ids=shifted, use_cache=False).logits
            return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), label_smoothing=0.1)

    return Translator()


def hugging_face(sizes, args):
    if sizes.decoder:
        return marian(sizes, args)
    from torch import nn
    from transformers import BertConfig, BertForSequenceClassification
    config = BertConfig(
        vocab_size=sizes.vocab, hidden_size=sizes.hidden, num_hidden_layers=sizes.encoder,
        num_attention_heads=sizes.heads, intermediate_size=sizes.ffn,
        hidden_act="gelu_pytorch_tanh" if args.gelu == "tanh" else "gelu",
        hidden_dropout_prob=args.dropout, attention_probs_dropout_prob=args.dropout,
        max_position_embeddings=512, num_labels=peer_model.CLASSES)
    config._attn_implementation = "sdpa"

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = BertForSequenceClassification(config)

        def forward(self, source, _, labels, mask=None):
            attention_mask = None if mask is None else mask[:, 0, 0, :].long()
            return self.bert(input_ids=source, attention_mask=attention_mask, labels=labels).loss

    return Classifier()


class Trainer:
    """A model with its optimizer: step() issues one training step."""

    def __init__(self, args, sizes, torch):
        self.torch, self.args = torch, args
        torch.manual_seed(1)
        is_hf = args.peer.startswith("hf")
        model = hugging_face(sizes, args) if is_hf else peer_model.build_peer(
            sizes, args.dropout, args.gelu)
        self.model = model.to(args.device).train()
        self.parameters = sum(p.numel() for p in model.parameters())
        self.run = self.model
        if args.peer.endswith("compile"):
            self.run = torch.compile(self.model)
        elif args.peer in ("reduce-overhead", "max-autotune"):
            self.run = torch.compile(self.model, mode=args.peer)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.scaler = torch.amp.GradScaler(args.device, enabled=args.precision == "fp16")
        self.dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(args.precision)

    def step(self, batch):
        self.optimizer.zero_grad(set_to_none=True)
        with self.torch.autocast(self.args.device, self.dtype, enabled=self.dtype is not None):
            loss = self.run(*batch)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss


def synchronize(args, torch):
    if args.device == "cuda":
        torch.cuda.synchronize()


def block_time(trainer, batches, args, torch):
    """Seconds of one step, over a block of them."""
    start = time.perf_counter()
    for batch, _ in batches:
        trainer.step(batch)
    synchronize(args, torch)
    return (time.perf_counter() - start) / len(batches)


def fastest_backend(args, sizes, torch):
    """Tries each backend of attention in eager mode; returns the fastest one's name, or None."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    if args.backend != "best":
        return args.backend
    if args.device == "cpu":
        return None
    kind = args.peer.removesuffix("-compile")
    eager = argparse.Namespace(**{**vars(args), "peer": kind if kind in ("hf", "varlen") else "eager"})
    batches = [make_batch(sizes, args, torch) for _ in range(3)]
    times = {}
    for name in BACKENDS:
        trainer = Trainer(eager, sizes, torch)
        try:
            with sdpa_kernel(getattr(SDPBackend, name)):
                block_time(trainer, batches, args, torch)
                times[name] = min(block_time(trainer, batches, args, torch) for _ in range(3))
        except (RuntimeError, torch.cuda.OutOfMemoryError) as error:
            print(f"{name} does not take {args.model}: {str(error).splitlines()[0]}", file=sys.stderr)
        del trainer
        torch.cuda.empty_cache()
    return min(times, key=times.get) if times else None


def backends_that_ran(trainer, batch, args, torch):
    """Profiles one step; returns the names of the backends of attention in it."""
    from torch.profiler import ProfilerActivity, profile
    kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if args.device == "cuda" else [])
    try:
        with profile(activities=kinds) as profiler:
            trainer.step(batch)
            synchronize(args, torch)
        seen = [event.key for event in profiler.key_averages()]
    except RuntimeError as error:  # a machine may forbid profiles
        print(f"no profile: {str(error).splitlines()[0]}", file=sys.stderr)
        return None
    return [name for name, parts in TRACES.items() if any(part in key for key in seen for part in parts)]


def worker(args):
    """Times one PyTorch variant in this process and prints one line of JSON."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("this PyTorch sees no GPU")
    if args.precision == "fp32":
        torch.set_float32_matmul_precision("highest")  # as dtrain: no TF32
    sizes = peer_model.MODELS[args.model]
    if args.smoke:
        sizes = peer_model.tiny(sizes)
    name = fastest_backend(args, sizes, torch)
    backends = [getattr(SDPBackend, n) for n in ([name] if name else BACKENDS)]
    block = BLOCK if args.device == "cuda" else 1
    with sdpa_kernel(backends):
        trainer = Trainer(args, sizes, torch)
        if args.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        batches = [make_batch(sizes, args, torch) for _ in range(block)]
        for _ in range(args.warm_up):
            block_time(trainer, batches, args, torch)
        times, tokens = [], 0
        for _ in range(max(1, args.steps // block)):
            batches = [make_batch(sizes, args, torch) for _ in range(block)]
            synchronize(args, torch)
            times.append(block_time(trainer, batches, args, torch))
            tokens += sum(count for _, count in batches) / block
        ran = backends_that_ran(trainer, batches[0][0], args, torch)
    median = statistics.median(times)
    quartiles = statistics.quantiles(times, n=4) if len(times) > 1 else [median] * 3
    cuda = args.device == "cuda"
    print(json.dumps({
        "ms_median": median * 1e3,
        "ms_quartiles": (quartiles[2] - quartiles[0]) * 1e3,
        "tokens_s": tokens / len(times) / median,
        "gflops": peer_model.step_flop(sizes) / median / 1e9,
        "device_mb": torch.cuda.max_memory_reserved() / 1e6 if cuda else math.nan,
        "params": trainer.parameters,
        # Wanted, and what ran: torch.compile may have replaced it, and a fallback shows here too.
        "attention": f"{name or 'default'}, ran: {', '.join(ran) or 'none known'}" if ran is not None
                     else f"{name or 'default'}, not profiled",
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name() if cuda else "CPU",
    }))


def run_json(command):
    """Runs one process and returns the JSON object on its last line, or the reason why there is none."""
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        return json.loads(lines[-1])
    reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
    return {"failed": f"exit code {done.returncode}: {reason[:150]}"}


def sides_of(args, model, lengths, precision):
    """Name and command of each side of one comparison; dtrain's first."""
    common = [f"--model={model}", f"--lengths={lengths}", f"--precision={precision}",
              f"--steps={args.steps}", f"--dropout={args.dropout}", f"--gelu={args.gelu}",
              f"--device={args.device}"]
    sides = {}
    if args.bench:
        sides["dtrain"] = [args.bench, *common, f"--gemm_tuning={args.gemm_tuning}"]
    script = [args.python, str(Path(__file__).resolve()), "--worker", f"--warm_up={args.warm_up}",
              f"--backend={args.backend}", *(["--smoke"] if args.smoke else [])]
    for peer in args.peers.split(","):
        # On the CPU nested tensors have no causal attention.
        if peer.startswith("varlen") and (lengths == "fixed" or args.device == "cpu" and
                                          peer_model.MODELS[model].decoder):
            continue
        sides[peer] = [*script, *common, f"--peer={peer}"]
    return sides


def middle(runs, key):
    values = [run[key] for run in runs if key in run]
    return statistics.median(values) if values else math.nan


def print_case(case, found, lengths):
    ours = found.get("dtrain", [])
    for side, runs in found.items():
        good = [run for run in runs if "failed" not in run]
        if not good:
            print(f"{case:28} {side:16} {runs[0]['failed']}")
            continue
        ratio = middle(good, "ms_median") / middle(ours, "ms_median") if ours else math.nan
        spread = max(r["ms_median"] for r in good) - min(r["ms_median"] for r in good)
        place = 2 if side.startswith("varlen") else ("fixed", "real").index(lengths)
        columns = " ".join(f"{ratio:8.2f}" if i == place else " " * 8 for i in range(3))
        print(f"{case:28} {side:16} {middle(good, 'ms_median'):9.3f} {spread:8.3f} "
              f"{middle(good, 'tokens_s'):11.0f} {middle(good, 'gflops') / 1e3:8.1f} "
              f"{middle(good, 'device_mb'):9.0f} {columns} {good[0].get('attention', '')}", flush=True)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", help="dtrain_step_bench; without it PyTorch runs alone")
    parser.add_argument("--python", default=sys.executable, help="a python that has torch")
    parser.add_argument("--models", default="bert_base,bert_large,nmt_base")
    parser.add_argument("--peers", default="eager,compile,reduce-overhead,hf,hf-compile,varlen,varlen-compile",
                        help=f"of {', '.join(PEERS)}")
    parser.add_argument("--precisions", default="bf16")
    parser.add_argument("--all_lengths", default="fixed,real")
    parser.add_argument("--backend", default="best", choices=["best", *BACKENDS])
    parser.add_argument("--gelu", default="erf", choices=["erf", "tanh"])
    parser.add_argument("--gemm_tuning", default="measure", choices=["off", "heuristic", "measure"])
    parser.add_argument("--rounds", type=int, default=3, help="turns of every side")
    parser.add_argument("--steps", type=int, default=200, help="timed steps of each process")
    parser.add_argument("--warm_up", type=int, default=5, help=f"blocks of {BLOCK} steps before")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--smoke", action="store_true", help="tiny models on the CPU: does the script run")
    parser.add_argument("--json", help="also write all that was measured to this file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--model", choices=list(peer_model.MODELS), help=argparse.SUPPRESS)
    parser.add_argument("--lengths", choices=["fixed", "real"], help=argparse.SUPPRESS)
    parser.add_argument("--precision", choices=["fp32", "bf16", "fp16"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.smoke and not args.worker:
        parser.set_defaults(**SMOKE)
        args = parser.parse_args()
        if args.bench:
            parser.error("--smoke tries PyTorch's sides: leave out --bench")
    for flag, names, known in (("models", args.models, peer_model.MODELS), ("peers", args.peers, PEERS),
                               ("all_lengths", args.all_lengths, ("fixed", "real")),
                               ("precisions", args.precisions, ("fp32", "bf16", "fp16"))):
        unknown = set(names.split(",")) - set(known)
        if unknown:
            parser.error(f"--{flag}: unknown {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    if args.bench and not os.access(args.bench, os.X_OK):
        parser.error(f"--bench={args.bench} is no program: build dtrain_step_bench first")
    return args


def main():
    args = parse()
    if args.worker:
        worker(args)
        return
    print(f"{'model, lengths, precision':28} {'side':16} {'ms':>9} {'range':>8} {'tokens/s':>11} "
          f"{'TFLOP/s':>8} {'GPU MB':>9} {'x fixed':>8} {'x real':>8} {'x varlen':>8} attention")
    rows, last = [], {}
    for model in args.models.split(","):
        for lengths in args.all_lengths.split(","):
            for precision in args.precisions.split(","):
                sides = sides_of(args, model, lengths, precision)
                found = {side: [] for side in sides}
                for _ in range(args.rounds):
                    for side, command in sides.items():
                        found[side].append(run_json(command))
                ours = [run for run in found.get("dtrain", []) if "failed" not in run]
                print_case(f"{model} {lengths} {precision}",
                           {**found, **({"dtrain": ours} if ours else {})}, lengths)
                rows.append(dict(model=model, lengths=lengths, precision=precision, **found))
                last = next((run for runs in found.values() for run in runs if "torch" in run), last)
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")
    print("x: the side's time / dtrain's; TFLOP/s: of full lengths; PyTorch "
          f"{last.get('torch', '?')} on {last.get('gpu', '?')}; gelu {args.gelu}")
    if args.smoke and "failed" in json.dumps(rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
